import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { parseBroker } from '../data/broker-address.ts'
import { NOW } from '../fixtures/facts.ts'
import { type Answers, scriptedDatabase } from '../fixtures/scripted-database.ts'
import { type ApiOptions, createApi, Refused } from './api.ts'

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
const failing = (status: number) => expect.objectContaining({ status })
const usageSaying = (text: string) =>
  expect.objectContaining({ exitCode: 2, message: expect.stringContaining(text) })

describe('questions', () => {
  test.each(['', 'nothing', 'constructor', '__proto__', 'toString'])(
    'named %j are none',
    async (name) => {
      await expect(api().ask(name)).rejects.toBeInstanceOf(Refused)
      await expect(api().ask(name, '', {})).rejects.toEqual(failing(404))
    },
  )

  test.each(['replay', 'requeue', 'discard'])(
    'that change, such as %s, have a body',
    async (name) => {
      const { ask, asked } = api()
      await expect(ask(name, `ids=${ID}`)).rejects.toEqual(failing(404))
      expect(asked).toEqual([])
    },
  )

  test.each(['session', 'status', 'waiting', 'letters', 'selected', 'letter', 'event', 'findings'])(
    'that read, such as %s, have none',
    async (name) => {
      await expect(api().ask(name, '', {})).rejects.toEqual(failing(404))
    },
  )

  test.each(['status', 'waiting', 'letters', 'selected', `letter?id=${ID}`, `event?id=${ID}`])(
    'such as %s are answered only of tables that this release can use',
    async (question) => {
      const [name = '', query] = question.split('?')
      const { ask } = api([['to_regclass($1)', []]])
      await expect(ask(name, query)).rejects.toThrow(/There are no tables/)
    },
  )
})

test('a session says where it is and what it may', async () => {
  const brokers = [parseBroker('amqp://host'), parseBroker('kafka://host')]
  expect(await api([], { brokers }).ask('session')).toEqual({
    ...{ place: 'db, database shop', schema: 'onceward', allowsChanges: true, by: 'alice' },
    brokers: ['RabbitMQ', 'Kafka'],
  })
  expect(await api([], { allowsChanges: false, by: undefined }).ask('session')).toMatchObject({
    ...{ allowsChanges: false, by: '', brokers: [] },
  })
})

test('the status has the minutes of the last hour', async () => {
  const minutes = [{ consumerId: 1, age: 0, count: 2 }]
  const { ask } = api([
    ['"sweptAtMs"', [{ nowMs: NOW, version: 1, sweptAtMs: null, mayLease: false }]],
    ['"consumerId"', minutes],
  ])
  expect(await ask('status')).toMatchObject({ status: { nowMs: NOW }, minutes, isWhole: true })
})

test('what waits is at most 100 events of each kind', async () => {
  const { ask, asked } = api([['"nowMs"', [{ nowMs: NOW }]]])
  expect(await ask('waiting')).toEqual({ nowMs: NOW, inHand: [], waiting: [], parked: [] })
  expect(asked.filter(({ sql }) => sql.includes('limit $1')).map((each) => each.values)).toEqual([
    ...[[100], [100], [100]],
  ])
})

test('findings are those of the database', async () => {
  const server = { versionNum: 180_001, encoding: 'UTF8', nowMs: Date.now(), fsync: 'off' }
  const { ask } = api([
    ['"versionNum"', [server]],
    ['to_regclass($1)', []],
  ])
  expect(await ask('findings')).toMatchObject({
    findings: expect.arrayContaining([expect.objectContaining({ about: 'tables' })]),
  })
})

describe('dead letters', () => {
  const LETTER = { id: ID, key: String.raw`a\nb`, tenant: null }
  const COUNTS = [{ consumer: 'billing', reason: 'fatal', count: 1, oldestMs: NOW }]
  const LISTED: Answers = [
    ['select * from', [LETTER]],
    ['group by 1, 2', COUNTS],
    ['select id, consumer', [{ id: ID }]],
  ]

  test('are the oldest 100 with their keys as they were, and the counts of all', async () => {
    const { ask, asked } = api(LISTED)
    expect(await ask('letters')).toEqual({ letters: [{ ...LETTER, key: 'a\nb' }], counts: COUNTS })
    const none = [null, null, null, null, null, null, null]
    expect(asked.slice(2).map(({ values }) => values)).toEqual([[...none, 100], none])
    expect(await ask('selected')).toEqual([{ id: ID }])
    expect(asked.at(-1)?.values).toEqual([...none, null])
  })

  test.each([
    ['consumer=billing&reason=fatal&search=x', ['billing', 'fatal', null, null, null, 'x', 'x']],
    ['kind=event', [null, null, 'event', null, null, null, null]],
    ['kind=refused&consumer=&reason=', [null, null, 'refused', null, null, null, null]],
    ['kind=other&limit=1&sinceMs=1', [null, null, null, null, null, null, null]],
  ])('are selected by %s', async (query, values) => {
    const { ask, asked } = api(LISTED)
    await ask('selected', query)
    expect(asked.at(-1)?.values.slice(0, 7)).toEqual(values)
  })

  test('one is shown with its body as text, and without the bytes', async () => {
    const json = (text: string) => Buffer.from(text).toString('base64')
    const { ask, asked } = api([
      [
        'octet_length',
        [
          {
            ...{ ...LETTER, source: '{}', properties: json('{}'), headers: json('{}') },
            ...{ bodyParts: 0, bodyBytes: 7, isOmitted: false, body: json('{"a":1}') },
          },
        ],
      ],
    ])
    const letter = await ask('letter', `id=${ID}`)
    expect(letter).toMatchObject({ key: 'a\nb', shown: { form: 'json', text: '{\n  "a": 1\n}' } })
    expect(letter).not.toHaveProperty('body')
    expect(asked.at(-1)?.values).toEqual([ID, 65_536])
    for (const query of ['', 'id=x'])
      await expect(ask('letter', query)).rejects.toEqual(failing(404))
  })
})

test('the story of an event is asked for by key and consumer, or by id', async () => {
  const { ask } = api()
  const facts = { consumer: 'billing', key: 'o-1', tenant: 'acme' }
  const named = await ask('event', 'consumer=billing&key=o-1&tenant=acme&id=')
  expect(named).toMatchObject({ facts, isKnown: false })
  expect(await ask('event', `id=${ID}`)).toMatchObject({ facts: { id: ID } })
  await expect(ask('event', 'consumer=billing')).rejects.toEqual(usageSaying('Which event?'))
})

test('the Redis of the console is asked about an event', async () => {
  const asking = api([['pg_control_system', [{ may: true }]]], { redis: 'no-url' })
  await expect(asking.ask('event', `id=${ID}`)).rejects.toThrow(/pg_control_system|redis/)
})

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
