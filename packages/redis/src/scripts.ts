import { createHash } from 'node:crypto'
import { bury } from './lua/bury.ts'
import { claim } from './lua/claim.ts'
import { clock as serverClock } from './lua/clock.ts'
import { complete } from './lua/complete.ts'
import { examine } from './lua/examine.ts'
import { fail } from './lua/fail.ts'
import { forget } from './lua/forget.ts'
import { inspect } from './lua/inspect.ts'
import { release } from './lua/release.ts'
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
