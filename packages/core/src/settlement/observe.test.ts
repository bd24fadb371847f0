import { expect, test } from 'vitest'
import { noop } from '../fixtures/inbox.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { toEpochMs } from '../model/brands.ts'
import { LeaseLostError } from '../model/errors.ts'
import type { Logger } from '../model/logger.ts'
import { observeOutcome } from './observe.ts'
import { type Outcome, settlementOf } from './outcome.ts'

const error = new LeaseLostError('The lease was lost.')

/** The level of the line that an outcome gets. */
function levelOf(outcome: Outcome): string | undefined {
  let heard: string | undefined
  const hear = (level: keyof Logger) => () => {
    heard = level
  }
  const logger = { debug: hear('debug'), info: noop, warn: hear('warn'), error: hear('error') }
  observeOutcome(resolveOptions({ consumer: 'billing', inbox: memoryInbox(), logger }), undefined, {
    delivery: toDelivery({}),
    key: undefined,
    outcome,
    settlement: settlementOf(outcome, toEpochMs(0)),
    handlerMs: undefined,
    totalMs: 1,
  })
  return heard
}

// Red when what a drain or a rebalance hands back is a warning: thousands of lines at each deployment.
test.each<[string, string, Outcome]>([
  ['debug', 'was not begun because the consumer ends', { kind: 'abandoned', reason: 'closing' }],
  [
    'warn',
    'runs on without its claim',
    { kind: 'abandoned', reason: 'closing', stillRunning: true },
  ],
  ['warn', 'lost its lease', { kind: 'abandoned', reason: 'lease-lost', error }],
  ['warn', 'may have been committed', { kind: 'abandoned', reason: 'commit-unknown', error }],
  ['debug', 'is processed', { kind: 'processed', attempt: 1 }],
  ['error', 'is dead', { kind: 'dead', reason: 'fatal', attempt: 1, error }],
])('%s says that a delivery %s', (level, _what, outcome) => {
  expect(levelOf(outcome)).toBe(level)
})
