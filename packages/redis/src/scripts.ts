import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** One script per transition, what operators do, and the self-test's own. */
export const SCRIPTS = [
  'claim',
  'renew',
  'complete',
  'fail',
  'release',
  'bury',
  'replay',
  'forget',
  'examine',
] as const
export type ScriptName = (typeof SCRIPTS)[number]

export interface Script {
  readonly source: string
  readonly sha: string
}

export type Scripts = Readonly<Record<ScriptName, Script>>

// src ships beside dist, so the same path holds from both.
const DIRECTORY = new URL('../src/lua/', import.meta.url)

/**
 * The scripts as the server gets them: the clock, how states are kept, the transition.
 *
 * @param clock - Text that defines `clock()`; the time of Redis unless a test moves it.
 */
export function createScripts(clock: string = read('clock')): Scripts {
  const before = `${clock}\n${read('state')}`
  const entries = SCRIPTS.map((name): [ScriptName, Script] => {
    const source = `${before}\n${read(name)}`
    return [name, { source, sha: createHash('sha1').update(source).digest('hex') }]
  })
  return Object.fromEntries(entries) as Record<ScriptName, Script>
}

function read(name: string): string {
  return readFileSync(new URL(`${name}.lua`, DIRECTORY), 'utf8')
}
