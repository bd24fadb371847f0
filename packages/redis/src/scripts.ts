import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** One script for each transition, for each operation of operators, and for the self-test. */
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
 * The scripts as the server gets them: the clock, the functions that read and write states, the transition.
 *
 * @param clock - Text that defines `clock()`. By default the time of Redis; a test passes a clock it can move.
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
