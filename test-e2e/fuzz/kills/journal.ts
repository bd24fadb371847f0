import { existsSync, openSync, readFileSync, writeSync } from 'node:fs'
import type { Settlement } from '@onceward/core'
import type { RunFact, Settled } from '../handlers/history.ts'
import { type Death, describe } from '../handlers/shared.ts'
import type { PlayedRun } from './history.ts'

/** What a process writes down. The lines of a dead process stay. */
export type Line =
  | { readonly kind: 'run'; readonly fact: RunFact }
  | { readonly kind: 'settled' | 'again'; readonly event: number; readonly settlement: Settlement }
  | { readonly kind: 'failed' | 'nested'; readonly event: number }
  | { readonly kind: 'surprise'; readonly what: string }
  | { readonly kind: 'dying'; readonly death: Death }
  | { readonly kind: 'finished'; readonly left: readonly string[] }

/** Writes lines that even SIGKILL cannot take back. */
export function openJournal(file: string): (line: Line) => void {
  const descriptor = openSync(file, 'a')
  return (line) => {
    writeSync(descriptor, `${JSON.stringify(readable(line))}\n`)
  }
}

/** Handlers throw what JSON cannot hold. */
function readable(line: Line): unknown {
  if (!('settlement' in line) || !('error' in line.settlement)) return line
  const error = describe(line.settlement.error)
  return { ...line, settlement: { ...line.settlement, error } }
}

/** What one process has written down. */
export interface Notes {
  readonly runs: readonly PlayedRun[]
  readonly settled: readonly Settled[]
  readonly again: readonly Settled[]
  /** Events whose handler failed, once for each time. */
  readonly failed: readonly number[]
  readonly nested: readonly number[]
  readonly surprises: readonly string[]
  readonly deaths: readonly Death[]
  /** What it has left behind. Undefined if it died before its end. */
  readonly left: readonly string[] | undefined
}

export function readJournal(file: string, number: number): Notes {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const lines = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line): Line => JSON.parse(line))
  const of = <Kind extends Line['kind']>(kind: Kind): readonly Extract<Line, { kind: Kind }>[] =>
    lines.filter((line): line is Extract<Line, { kind: Kind }> => line.kind === kind)
  const settledAs = (kind: 'settled' | 'again'): readonly Settled[] =>
    lines.flatMap((line) =>
      line.kind === kind ? [{ event: line.event, settlement: line.settlement, round: number }] : [],
    )
  const eventsOf = (kind: 'failed' | 'nested'): readonly number[] =>
    lines.flatMap((line) => (line.kind === kind ? [line.event] : []))
  return {
    runs: playedRuns(lines, number),
    settled: settledAs('settled'),
    again: settledAs('again'),
    failed: eventsOf('failed'),
    nested: eventsOf('nested'),
    surprises: of('surprise').map(({ what }) => what),
    deaths: of('dying').map(({ death }) => death),
    left: of('finished')[0]?.left,
  }
}

/** The last that each run has said of itself. */
function playedRuns(lines: readonly Line[], number: number): readonly PlayedRun[] {
  const runs = new Map<string, PlayedRun>()
  for (const [at, line] of lines.entries()) {
    if (line.kind !== 'run') continue
    const { fact } = line
    const name = `${fact.event} ${fact.run}`
    const before = runs.get(name)
    const overAt = before?.overAt ?? (fact.isOver === true ? at : undefined)
    runs.set(name, { ...fact, process: number, beganAt: before?.beganAt ?? at, overAt })
  }
  return [...runs.values()]
}
