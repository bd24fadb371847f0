import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { parseBroker } from '../data/broker-address.ts'
import { type Answers, scriptedDatabase } from '../fixtures/scripted-database.ts'
import { type ApiOptions, createApi } from './api.ts'

const ID = '0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'
const ids = (count: number) =>
  Array.from({ length: count }, (_, at) => ID.replace(/^.{3}/, String(100 + at)))

function api(answers: Answers = [], options: Partial<ApiOptions> = {}) {
  const database = scriptedDatabase(answers)
  const made = createApi({
    ...{ database, allowsChanges: true, by: 'alice', brokers: [] },
    ...{ redis: undefined, redisNamespace: undefined },
    ...{ ending: new AbortController().signal, ...options },
  })
  const ask = async (name: string, query = '', body?: unknown): Promise<unknown> =>
    made.answer({ name, query: new URLSearchParams(query), body })
  return { ask, asked: database.asked }
}
const usageSaying = (text: string) =>
  expect.objectContaining({ exitCode: 2, message: expect.stringContaining(text) })

describe('a change', () => {
  /** What the changing statements were told. */
  const told = (asked: ReturnType<typeof api>['asked']) =>
    asked.filter(({ sql }) => sql.includes('with free')).map(({ values }) => values)
  const free: Answers = [['with free', [ID]]]

  test.each<readonly [string, object, readonly unknown[]]>([
    ['replay', {}, ['alice']],
    ['replay', { by: ' bob ' }, ['bob']],
    ['replay', { by: '  ' }, ['alice']],
    ['replay', { by: 7 }, ['alice']],
    ['replay', { by: `${'b'.repeat(200)}c` }, ['b'.repeat(200)]],
    ['discard', { why: ' test\0data ' }, ['alice', 'test␀data']],
    ['discard', { why: `${'w'.repeat(2_000)}x`, by: 'bob' }, ['bob', 'w'.repeat(2_000)]],
  ])('%s is told the operator and the reason', async (name, body, values) => {
    const { ask, asked } = api([['with free', [ID]]])
    expect(await ask(name, '', { ids: [ID], ...body })).toEqual({ done: [ID], untouched: [] })
    expect(told(asked)).toEqual([[`{${ID}}`, ...values]])
  })

  test.each<{ readonly body: unknown }>([
    ...[{ body: null }, { body: 'x' }, { body: {} }, { body: { ids: ID } }, { body: { ids: [] } }],
    ...[{ body: { ids: ['x'] } }, { body: { ids: [ID, 7] } }, { body: { ids: ids(101) } }],
  ])('of $body is refused', async ({ body }) => {
    const { ask, asked } = api(free)
    await expect(ask('replay', '', body)).rejects.toEqual(usageSaying('1 to 100 ids'))
    expect(asked).toEqual([])
  })

  test.each([[['x']], [['-1']], [[ID]], [['1', 7]], [[]]])(
    'of messages that are given as %j is refused',
    async (given) => {
      const { ask, asked } = api()
      const refused = ask('replay-messages', '', { ids: given })
      await expect(refused).rejects.toEqual(usageSaying('1 to 100 ids'))
      expect(asked).toEqual([])
    },
  )

  test('of 100 ids is made one by one', async () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(0)
    onTestFinished(() => now.mockRestore())
    const { ask, asked } = api([['with free', ([id]) => [String(id).slice(1, -1)]]])
    expect(await ask('replay', '', { ids: ids(100) })).toEqual({ done: ids(100), untouched: [] })
    expect(told(asked)).toHaveLength(100)
  })

  test('that has worked for five seconds answers what it has done', async () => {
    const now = vi.spyOn(performance, 'now')
    onTestFinished(() => now.mockRestore())
    const ticks = [1_000, 5_999, 6_000]
    now.mockImplementation(() => ticks.shift() ?? 6_000)
    const { ask } = api()
    const changed = await ask('replay', '', { ids: ids(5) })
    expect(changed).toMatchObject({ done: [], untouched: { length: 2 } })
  })

  test.each([[{}], [{ why: '' }], [{ why: ' ' }], [{ why: 7 }]])(
    'that discards with %j, without a reason, is refused',
    async (body) => {
      const { ask, asked } = api(free)
      const refused = ask('discard', '', { ids: [ID], ...body })
      await expect(refused).rejects.toEqual(usageSaying('Say why'))
      const messages = ask('discard-messages', '', { ids: ['1'], ...body })
      await expect(messages).rejects.toEqual(usageSaying('Say why'))
      expect(asked).toEqual([])
    },
  )

  test('that sends back needs a broker, and says what is no dead letter', async () => {
    const body = { ids: [ID] }
    await expect(api().ask('requeue', '', body)).rejects.toEqual(usageSaying('Which broker?'))
    const { ask } = api([], { brokers: [parseBroker('amqp://127.0.0.1:1')] })
    expect(await ask('requeue', '', body)).toEqual({
      ...{ done: [], untouched: [{ id: ID, why: 'unknown' }] },
    })
  })

  test('that fails at once has failed; later it says what was done', async () => {
    const lost = new Error('connection lost')
    const failed = api([['with free', lost]])
    await expect(failed.ask('replay', '', { ids: [ID] })).rejects.toMatchObject({
      ...{ exitCode: 3, message: 'connection lost' },
    })
    const [one = '', two = ''] = ids(2)
    const { ask } = api([['with free', ([id]) => (String(id).includes(one) ? [one] : lost)]])
    expect(await ask('replay', '', { ids: [one, two] })).toEqual({
      ...{ done: [one], untouched: [], failure: 'connection lost' },
    })
  })

  test('that fails after it has left one as it is says so too', async () => {
    const [one = '', two = ''] = ids(2)
    const lost = new Error('connection lost')
    const { ask } = api([['with free', ([id]) => (String(id).includes(one) ? [] : lost)]])
    expect(await ask('replay', '', { ids: [one, two] })).toEqual({
      ...{ done: [], untouched: [{ id: one, why: 'unknown' }], failure: 'connection lost' },
    })
  })

  test('that fails after as many were changed as were left says so as well', async () => {
    const [one = '', two = '', three = ''] = ids(3)
    const lost = new Error('connection lost')
    const rows = (id: string) => (id.includes(one) ? [one] : id.includes(two) ? [] : lost)
    const { ask } = api([['with free', ([id]) => rows(String(id))]])
    expect(await ask('replay', '', { ids: [one, two, three] })).toMatchObject({
      ...{ done: [one], untouched: [{ id: two }], failure: 'connection lost' },
    })
  })
})
