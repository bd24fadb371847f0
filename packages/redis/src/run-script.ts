import type { EventId } from '@onceward/core'
import type { Evaluate } from './client.ts'
import { isCrossSlot, toStoreError } from './errors.ts'
import { keyOf, type Namespace, partitionOf } from './keys.ts'
import type { ScriptName, Scripts } from './scripts.ts'

type Argument = string | Buffer

/** One event of a batch, and what its script is told of it. */
export interface Entry {
  readonly id: EventId
  readonly args: readonly Argument[]
}

/** One transition for many events: an answer for each, in order. */
export interface Batch {
  readonly script: ScriptName
  readonly namespace: Namespace
  /** For all events of the batch. */
  readonly common?: readonly Argument[]
  readonly entries: readonly Entry[]
}

export type RunBatch = (batch: Batch) => Promise<readonly unknown[]>

/** Events in one script at most: it holds Redis for a millisecond, no more. */
const SCRIPT_EVENTS = 100

/**
 * Sends a batch at once, so that it costs one round trip whatever its size. On a cluster each script gets the
 * events of one partition, because they are in one slot.
 */
export function createRunBatch(evaluate: Evaluate, scripts: Scripts): RunBatch {
  let isCluster = false

  const run = (batch: Batch): Promise<unknown> => {
    const { namespace, entries, common = [] } = batch
    const { markMs, keepMs } = namespace
    return evaluate({
      ...scripts[batch.script],
      keys: entries.map(({ id }) => keyOf(namespace, id)),
      args: [String(markMs), String(keepMs), ...common, ...entries.flatMap(({ args }) => args)],
    })
  }
  const runPart = async (batch: Batch): Promise<readonly unknown[]> => {
    try {
      const answers: unknown = await run(batch)
      if (Array.isArray(answers) && answers.length === batch.entries.length) return answers
    } catch (error) {
      const partitions = new Set(batch.entries.map(({ id }) => partitionOf(id)))
      if (!isCrossSlot(error) || partitions.size === 1) throw error
      isCluster = true
      return runBatch(batch)
    }
    throw new Error(`${batch.script} gave no answer for each event`)
  }
  const runBatch: RunBatch = async (batch) => {
    const parts = partsOf(batch.entries, isCluster)
    const all = new Array<unknown>(batch.entries.length)
    const answered = await Promise.allSettled(
      parts.map(async (part) => {
        const answers = await runPart({ ...batch, entries: part.map(({ entry }) => entry) })
        for (const [index, { at }] of part.entries()) all[at] = answers[index]
      }),
    )
    // All parts are over: nobody tells Redis anything more of them.
    const failed = answered.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw toStoreError(failed.reason, batch.script)
    return all
  }
  return runBatch
}

interface Placed {
  readonly entry: Entry
  /** Its place in the batch. */
  readonly at: number
}

function partsOf(entries: readonly Entry[], isCluster: boolean): readonly (readonly Placed[])[] {
  const groups = new Map<string, Placed[]>()
  for (const [at, entry] of entries.entries()) {
    const name = isCluster ? partitionOf(entry.id) : ''
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [{ entry, at }])
    else group.push({ entry, at })
  }
  return [...groups.values()].flatMap((group) => {
    const count = Math.ceil(group.length / SCRIPT_EVENTS)
    return Array.from({ length: count }, (_, index) =>
      group.slice(index * SCRIPT_EVENTS, (index + 1) * SCRIPT_EVENTS),
    )
  })
}
