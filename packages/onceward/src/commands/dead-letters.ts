import type { Command } from 'commander'
import { commandGroup, type End } from './command.ts'
import { discardCommand, replayCommand, rerunCommand } from './dead-letters-change.ts'
import { listCommand, showCommand } from './dead-letters-read.ts'
import { requeueCommand } from './dead-letters-requeue.ts'

export function deadLettersCommand(end: End): Command {
  const made = commandGroup({
    name: 'dead-letters',
    summary: 'List, show, replay, rerun, requeue and discard dead letters',
    rights: 'onceward_operator.',
    examples: [
      'dead-letters list --consumer billing --since 2h',
      'dead-letters show 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10',
      'dead-letters replay --consumer billing --reason attempts-spent',
      'dead-letters requeue --consumer billing --broker amqp://localhost',
      'dead-letters discard --consumer billing --reason invalid-payload --why "test data"',
    ],
  })
  const read = [listCommand, showCommand]
  const changing = [replayCommand, rerunCommand, requeueCommand, discardCommand]
  for (const make of [...read, ...changing]) made.addCommand(make(end))
  return made
}
