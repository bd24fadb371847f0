import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { changes, readEarlier } from '../../../bench/runner/compare.ts'
import { toJson } from '../../../bench/runner/report.ts'

const benchmark = (values: Readonly<Record<string, number>>, ratio: number) => ({
  ...{ name: 'guard', unit: 'events/s', values },
  ratios: { each: ratio },
  goals: [],
})

test('the figures that both runs have are shown before, after and in percent', () => {
  const before = benchmark({ unguarded: 4_000, gone: 1 }, 0.5)
  const after = benchmark({ unguarded: 5_000, 'client user µs': 3 }, 0.45)
  const lines = changes(before, after)
    .split('\n')
    .map((line) => line.replace(/ +/g, ' '))
  expect(lines).toEqual([
    'guard before after change',
    'unguarded 4,000 5,000 +25 %',
    'ratio each 0.50 0.45 -10 %',
  ])
})

test('an earlier run is read from the last line of its output, and anything else is refused', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'onceward-')), 'old.txt')
  const old = benchmark({ unguarded: 1 }, 1)
  writeFileSync(file, `Node v24\n\n${toJson([old])}\n`)
  expect(readEarlier(file).benchmarks).toMatchObject([{ name: 'guard', values: old.values }])
  expect(readEarlier(file).machine).toContain('Node')
  for (const other of ['', 'no JSON', 'null', '{}']) {
    writeFileSync(file, other)
    expect(() => readEarlier(file)).toThrow('--json')
  }
})
