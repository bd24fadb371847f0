import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeNats } from './consume.ts'
import { classifyError, DisconnectedError, JetStreamError } from './errors.ts'
import { resolveSettings } from './options.ts'
import { wrapNats } from './wrap.ts'

const { guard, port } = handMadeGuard()

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  consumeNats: (options) => consumeNats({} as never, guard, options),
  wrapNats: (options) => wrapNats({} as never, guard, options),
}

async function refusalOf(name: string, options: unknown): Promise<unknown> {
  try {
    return await FUNCTIONS[name]?.(options as never)
  } catch (error) {
    return error
  }
}

describe.each(Object.keys(FUNCTIONS))('%s', (name) => {
  test.each([
    ['streams', 'stream'],
    ['durable', undefined],
    ['batch.sise', 'batch.size'],
    ['deadLetter.subjects', 'deadLetter.subject'],
  ])('refuses the name %s', async (unknown, meant) => {
    const [group, field] = unknown.split('.')
    const options = field === undefined ? { [unknown]: 1 } : { [group ?? '']: { [field]: 1 } }
    const error = await refusalOf(name, options)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain(`${name} does not know "${unknown}"`)
    if (meant !== undefined) expect(String(error)).toContain(`did you mean "${meant}"?`)
  })

  test('refuses what is no connection', async () => {
    const error = await refusalOf(name, { stream: 'ORDERS' })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain('await connect()')
  })
})

test.each<[object, RegExp]>([
  [{ stream: 'a.b' }, /`stream` to be a name without/],
  [{ stream: undefined }, /`stream`/],
  [{ consumer: 'a*' }, /`consumer`/],
  [{ domain: '' }, /`domain`/],
  [{ orderingSubject: 0 }, /`orderingSubject` to be true or the number of a token/],
  [{ orderingSubject: false }, /`orderingSubject`/],
  [{ orderingHeader: '' }, /`orderingHeader`/],
  [{ orderingSubject: 1, orderingHeader: 'a' }, /got both/],
  [{ deadLetter: {} }, /got neither/],
  [{ deadLetter: 'dead' }, /`deadLetter` to be `\{ subject \}` or `\{ stream \}`/],
  [{ deadLetter: { subject: 'dead.*' } }, /`deadLetter.subject` to be a subject without wildcards/],
  [{ deadLetter: { stream: 'ORDERS' } }, /another stream than `stream`/],
])('%o is refused', (options, text) => {
  const resolve = () => resolveSettings({ stream: 'ORDERS', ...options } as never, port.settings)
  expect(resolve).toThrow(ConfigurationError)
  expect(resolve).toThrow(text)
})

test('the consumer is called as the guard, and without an inbox a dead message needs a place', () => {
  expect(resolveSettings({ stream: 'ORDERS' }, port.settings).consumer).toBe('billing')
  const without = { ...port.settings, hasInbox: false }
  expect(() => resolveSettings({ stream: 'ORDERS' }, without)).toThrow(/without an inbox/)
})

const named = (name: string, fields: object = {}): Error =>
  Object.assign(new Error(name), { name, ...fields })

test.each<[unknown, string]>([
  [new JetStreamError('stream not found', 10059), 'missing'],
  [new JetStreamError('the pull request ended: consumer deleted (409)', 409), 'missing'],
  [new JetStreamError('the pull request ended: leadership change (409)', 409), 'unready'],
  [new JetStreamError('maximum messages exceeded', 10077), 'unready'],
  [new JetStreamError('message size exceeds maximum allowed', 10054), 'too-large'],
  [new Error("'max_payload' size exceeded"), 'too-large'],
  [named('PermissionViolationError'), 'denied'],
  [named('NoRespondersError'), 'unready'],
  // A failed request has the reason as its cause.
  [named('RequestError', { cause: named('NoRespondersError') }), 'unready'],
  [named('RequestError', { message: 'connection disconnected' }), 'network'],
  [new DisconnectedError(), 'network'],
  [named('TimeoutError'), 'network'],
  [named('ClosedConnectionError'), 'closed'],
  [new Error('odd'), 'other'],
  [undefined, 'other'],
])('%s is of kind %s', (error, kind) => {
  expect(classifyError(error).kind).toBe(kind)
})
