import { expect, test, vi } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { ConfigurationError } from '../model/errors.ts'
import { reportFindings, when } from './findings.ts'

test('a text stands for what was found', () => {
  expect([when(true, 'a'), when(false, 'b')]).toEqual([['a'], []])
})

test('every warning is logged, and all problems are one error', () => {
  const warn = vi.fn()
  const found = [
    { warnings: ['w1', 'w2'], problems: ['p1'] },
    { warnings: ['w3'], problems: ['p2'] },
  ]
  const report = () => reportFindings(found, { ...silent, warn }, { queue: 'orders' })
  expect(report).toThrow(new ConfigurationError('p1\np2'))
  const logged = warn.mock.calls.map(([fields]) => fields)
  expect(logged).toEqual(['w1', 'w2', 'w3'].map((finding) => ({ queue: 'orders', finding })))
  const fine = [{ warnings: [], problems: [] }]
  expect(() => reportFindings(fine, silent, {})).not.toThrow()
})
