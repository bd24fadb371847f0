import { randomUUID } from 'node:crypto'
import type { Guard } from '@onceward/core'
import { consumeStream } from '@onceward/redis-streams'
import { SCRIPTS } from '../../../packages/redis-streams/src/clients/scripts.ts'
import type { InMemoryBroker, InMemoryConsumer } from '../broker.ts'

export const MOST: InMemoryBroker['MOST'] = { promises: 27, timers: 1.2, calls: 86 }

type Answer = (args: readonly unknown[]) => unknown

/** Answers a receive with what is there, or when the next entries come. */
export async function consumeInMemory(guard: Guard): Promise<InMemoryConsumer> {
  let waiting: unknown[] = []
  let left = 0
  let id = 0
  let wake = (): void => undefined
  let done = (): void => undefined
  const answers: Readonly<Record<string, Answer>> = {
    [SCRIPTS.ensureGroup.sha]: () => [Buffer.from('there')],
    [SCRIPTS.facts.sha]: () => [null, null, [], null],
    [SCRIPTS.claim.sha]: () => [Buffer.from('0-0'), [], []],
    [SCRIPTS.ack.sha]: (args) => {
      // After the way, the hash, two keys with their number, the group, the name and the choice.
      left -= args.length - 8
      if (left === 0) done()
      return []
    },
  }
  const read = async (count: number): Promise<unknown> => {
    if (waiting.length === 0) {
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      await promise
    }
    return [[Buffer.from('orders'), waiting.splice(0, count)]]
  }
  const client = {
    callBuffer: async (...args: unknown[]): Promise<unknown> => {
      if (args[0] === 'XREADGROUP') return read(Number(args[5]))
      return answers[String(args[1])]?.(args) ?? []
    },
    duplicate: (): object => client,
  }
  await consumeStream(client as never, guard, { stream: 'orders' })
  return {
    prepare: (count) => {
      const entries = Array.from({ length: count }, () => {
        id += 1
        const key = randomUUID()
        const fields = ['idempotency-key', key, 'payload', JSON.stringify({ key })]
        return [Buffer.from(`${id}-0`), fields.map((each) => Buffer.from(each))]
      })
      return () =>
        new Promise<void>((resolve) => {
          done = resolve
          left = count
          waiting = entries
          wake()
        })
    },
  }
}
