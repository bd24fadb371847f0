import { describe, expect, test } from 'vitest'
import { type Answers, scriptedQuery } from '../fixtures/scripted-database.ts'
import { deadLetterOf, isId, selected } from './dead-letters.ts'

const ID = '0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10'
const MIB = 1024 * 1024
const TABLES = { quoted: '"shop"' }
const base64 = (text: string): string => Buffer.from(text).toString('base64')

test.each([
  [ID, true],
  [ID.toUpperCase(), true],
  [`${ID}0`, false],
  [`0${ID}`, false],
  [ID.replaceAll('-', ''), false],
  [ID.slice(0, -13), false],
  ['', false],
])('%j is an id of a dead letter: %s', (text, is) => {
  expect(isId(text)).toBe(is)
})

// An ignored filter would replay or discard all of them.
test.each(['', 'x', "1' or '1", '12345678901234567890'])(
  'an error that is no group, such as %j, matches nothing',
  async (error) => {
    const { asked, query } = scriptedQuery([])
    await selected(query, TABLES, { error })
    expect(asked[0]?.sql.match(/and false/g)).toHaveLength(2)
  },
)

describe('one dead letter', () => {
  const ROW = {
    ...{ id: ID, kind: 'event', consumer: 'billing', bodyBytes: 5, bodyParts: 0 },
    ...{ source: '{"broker":"sqs"}', properties: base64('{"messageId":"m-1"}') },
    ...{ headers: base64('{"tenant":"Zoë"}'), body: base64('hello') },
  }
  const read = async (answers: Answers, maxBytes = 100) => {
    const { asked, query } = scriptedQuery(answers)
    return { letter: await deadLetterOf(query, TABLES, { id: ID, maxBytes }), asked }
  }

  test('has its message decoded, and nothing of how it is stored', async () => {
    const { asked, letter } = await read([['failed_events', [ROW]]])
    expect(letter).toEqual({
      ...{ id: ID, kind: 'event', consumer: 'billing', bodyBytes: 5 },
      ...{
        source: { broker: 'sqs' },
        properties: { messageId: 'm-1' },
        headers: { tenant: 'Zoë' },
      },
      body: Buffer.from('hello'),
    })
    expect(asked.map(({ values }) => values)).toEqual([[ID, 100]])
  })

  test('that is not there is undefined, and what is no id is not even asked for', async () => {
    expect(await read([])).toMatchObject({ letter: undefined, asked: [{ values: [ID, 100] }] })
    const { asked, query } = scriptedQuery([['failed_events', [ROW]]])
    expect(await deadLetterOf(query, TABLES, { id: 'x', maxBytes: 1 })).toBeUndefined()
    expect(asked).toEqual([])
  })

  test.each(['source', 'properties', 'headers'])(
    'whose %s a newer version wrote is named',
    async (column) => {
      const row = { ...ROW, [column]: column === 'source' ? 'v9' : base64('v9') }
      await expect(read([['failed_events', [row]]])).rejects.toMatchObject({
        ...{ name: 'UnreadableError', cause: expect.any(SyntaxError) },
        message: expect.stringContaining(`event ${ID} cannot be read`),
      })
    },
  )

  describe('whose body is in parts', () => {
    const LARGE = { ...ROW, bodyParts: 3, bodyBytes: 5 * MIB, body: '' }
    const piece = Buffer.alloc(2 * MIB, 'x').toString('base64')
    const parts: Answers = [['_parts where', [{ bytes: piece }]]]

    test.each([
      [2 * MIB, [0], 2 * MIB],
      [2 * MIB + 1, [0, 1], 2 * MIB + 1],
      [1, [0], 1],
      [0, [], 0],
      [100 * MIB, [0, 1, 2], 5 * MIB],
    ])('at most %i bytes are the parts %j', async (maxBytes, numbers, length) => {
      const { asked, letter } = await read([...parts, ['failed_events', [LARGE]]], maxBytes)
      expect(letter?.body).toHaveLength(length)
      expect(asked.slice(1).map(({ values }) => values)).toEqual(numbers.map((at) => [ID, at]))
    })

    test.each([
      ['event', 'failed_event_parts where event_id'],
      ['refused', 'refused_message_parts where refused_id'],
    ])('of kind %s is read from its own table', async (kind, words) => {
      const row = { ...LARGE, kind }
      const { asked } = await read([...parts, ['failed_events', [row]]])
      expect(asked[1]?.sql).toContain(words)
    })

    // Red when the rest is shown as the whole: an operator who saves it has another message.
    test('and has lost one is refused', async () => {
      await expect(read([['failed_events', [LARGE]]])).rejects.toMatchObject({
        ...{ name: 'UnreadableError', cause: { message: 'piece 0 is missing' } },
        message: expect.stringContaining(ID),
      })
    })
  })
})
