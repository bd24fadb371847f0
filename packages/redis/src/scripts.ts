import { createHash } from 'node:crypto'
import type { EventId } from '@onceward/core/ports'
import type { Evaluate } from './client.ts'
import { needsOneNode, toStoreError } from './errors.ts'
import { bucketKeys, keyOf, type Namespace } from './keys.ts'
import { bury } from './lua/bury.ts'
import { claim } from './lua/claim.ts'
import { clock as serverClock } from './lua/clock.ts'
import { complete } from './lua/complete.ts'
import { examine } from './lua/examine.ts'
import { fail } from './lua/fail.ts'
import { forget } from './lua/forget.ts'
import { inspect } from './lua/inspect.ts'
import { mark } from './lua/mark.ts'
import { release } from './lua/release.ts'
import { remember } from './lua/remember.ts'
import { renew } from './lua/renew.ts'
import { replay } from './lua/replay.ts'
import { sample } from './lua/sample.ts'
import { state } from './lua/state.ts'

/**
 * One script for each transition, for each operation of operators, and for the self-test.
 *
 * The Lua is text in TypeScript modules, so that a bundle holds it: files read at run time are not in a bundle.
 */
const BODIES: Readonly<Record<ScriptName, string>> = {
  claim,
  renew,
  complete,
  remember,
  mark,
  fail,
  release,
  bury,
  replay,
  forget,
  examine,
  sample,
  inspect,
}
export type ScriptName =
  | 'claim'
  | 'renew'
  | 'complete'
  | 'remember'
  | 'mark'
  | 'fail'
  | 'release'
  | 'bury'
  | 'replay'
  | 'forget'
  | 'examine'
  | 'sample'
  | 'inspect'

export interface Script {
  readonly source: string
  readonly sha: string
}

export type Scripts = Readonly<Record<ScriptName, Script>>

/**
 * The scripts as the server gets them: the clock, the functions that read and write states, the transition.
 *
 * @param clock - Text that defines `clock()`. By default the time of Redis; a test passes a clock it can move.
 */
export function createScripts(clock: string = serverClock): Scripts {
  const before = `${clock}\n${state}`
  const entries = Object.entries(BODIES).map(([name, body]): [string, Script] => {
    const source = `${before}\n${body}`
    return [name, { source, sha: createHash('sha1').update(source).digest('hex') }]
  })
  return Object.fromEntries(entries) as Scripts
}

type Argument = string | Buffer

/** One event of a batch with its arguments for the script. */
export interface ScriptEntry {
  readonly id: EventId
  readonly args: readonly Argument[]
}

/** One transition for many events. */
export interface ScriptBatch {
  readonly script: ScriptName
  readonly namespace: Namespace
  /** Arguments for the whole batch. */
  readonly common?: readonly Argument[]
  readonly entries: readonly ScriptEntry[]
}

/** Runs one transition; one answer for each event, in order. */
export type RunScript = (batch: ScriptBatch) => Promise<readonly unknown[]>

/** Scripts that read or write done marks. A script declares every key it may touch, or a cluster cannot move its slot. */
const MARKED: ReadonlySet<ScriptName> = new Set(['claim', 'complete', 'sample', 'inspect'])

/** Most events in one script. A script blocks Redis, and this many take about a millisecond. */
const SCRIPT_EVENTS = 100

/** In a transaction that the program has open on the same connection, Redis answers `QUEUED` and runs the script later. */
const ALONE =
  'give redisLeases() a client on which nothing else opens a transaction (MULTI), and check for a proxy that changes answers'

/**
 * Sends all scripts of a batch at once, so a batch of any size costs one round trip. On a cluster each script gets one
 * event: its keys are in one slot, and while a slot moves, the keys of several events may be on two nodes.
 */
export function createScriptRunner(evaluate: Evaluate, scripts: Scripts): RunScript {
  let isCluster = false

  const run = (batch: ScriptBatch): Promise<unknown> => {
    const { namespace, entries, common = [] } = batch
    const { markMs, keepMs } = namespace
    const args = entries.flatMap((entry) => entry.args)
    return evaluate({
      ...scripts[batch.script],
      keys: keysOf(batch),
      args: [
        String(markMs),
        String(keepMs),
        ...common,
        ...(batch.script === 'mark' ? joined(args) : args),
      ],
    })
  }
  const runPart = async (batch: ScriptBatch): Promise<readonly unknown[]> => {
    try {
      const answers: unknown = await run(batch)
      if (Array.isArray(answers) && answers.length === batch.entries.length) return answers
    } catch (error) {
      if (!needsOneNode(error)) throw error
      isCluster = true
      if (batch.entries.length > 1) return runScript(batch)
      return [await runUnmarked(batch, error)]
    }
    throw new Error(`${batch.script} did not answer every event: ${ALONE}`)
  }
  /**
   * While a cluster moves a slot, the keys of one event may be on two nodes, and only scripts with one key run. The claim
   * is then decided without the mark, and PostgreSQL answers duplicates. A done event is remembered in its own key.
   */
  const runUnmarked = async (batch: ScriptBatch, error: unknown): Promise<unknown> => {
    if (batch.script === 'sample' || batch.script === 'mark') throw error
    const answers: unknown = await run({ ...batch, namespace: { ...batch.namespace, markMs: 0 } })
    return Array.isArray(answers) ? answers[0] : undefined
  }
  const runScript: RunScript = async (batch) => {
    const parts = partsOf(batch.entries, isCluster)
    const all = new Array<unknown>(batch.entries.length)
    const answered = await Promise.allSettled(
      parts.map(async (part) => {
        const answers = await runPart({ ...batch, entries: part.map(({ entry }) => entry) })
        for (const [index, { at }] of part.entries()) all[at] = answers[index]
      }),
    )
    // A failure is reported only when every part has ended, so that no part is still running.
    const failed = answered.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw toStoreError(failed.reason, batch.script)
    return all
  }
  return runScript
}

function keysOf({ entries, namespace, script }: ScriptBatch): readonly (string | Buffer)[] {
  if (script === 'mark') return entries.flatMap(({ id }) => bucketKeys(namespace, id))
  if (namespace.markMs === 0 || !MARKED.has(script))
    return entries.map(({ id }) => keyOf(namespace, id))
  return entries.flatMap(({ id }) => [keyOf(namespace, id), ...bucketKeys(namespace, id)])
}

/** Marks are most of what a guard tells Redis, and one argument costs less than many. */
const joined = (args: readonly Argument[]): readonly Argument[] => [
  Buffer.concat(args.map((arg) => Buffer.from(arg))),
]

interface IndexedEntry {
  readonly entry: ScriptEntry
  /** Index in the batch. */
  readonly at: number
}

function partsOf(
  entries: readonly ScriptEntry[],
  isCluster: boolean,
): readonly (readonly IndexedEntry[])[] {
  const size = isCluster ? 1 : SCRIPT_EVENTS
  const indexed = entries.map((entry, at) => ({ entry, at }))
  return Array.from({ length: Math.ceil(indexed.length / size) }, (_, index) =>
    indexed.slice(index * size, (index + 1) * size),
  )
}
