import { expect, test } from 'vitest'
import { PostgresConversation, type WireEvent } from './postgres-conversation.ts'

const SSL = 80_877_103
const VERSION_3 = 196_608

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function startup(code = VERSION_3): Buffer {
  const body = code === SSL ? Buffer.alloc(0) : Buffer.from('user\0me\0\0')
  return Buffer.concat([int32(body.length + 8), int32(code), body])
}

const frame = (type: string, body: Buffer): Buffer =>
  Buffer.concat([Buffer.from(type), int32(body.length + 4), body])

const query = (text: string): Buffer => frame('Q', Buffer.from(`${text}\0`))

/** An unnamed statement with parameters as texts, as pg sends it. */
function prepared(text: string, values: readonly string[]): Buffer {
  const int16 = (value: number): Buffer => int32(value).subarray(2)
  const bound = values.flatMap((value) => [int32(Buffer.byteLength(value)), Buffer.from(value)])
  return Buffer.concat([
    frame('P', Buffer.concat([Buffer.from(`\0${text}\0`), int16(0)])),
    frame(
      'B',
      Buffer.concat([Buffer.from('\0\0'), int16(0), int16(values.length), ...bound, int16(0)]),
    ),
    frame('E', Buffer.from('\0\0\0\0\0')),
    frame('S', Buffer.alloc(0)),
  ])
}

const answer = (tag: string, status: 'I' | 'T' | 'E'): Buffer =>
  Buffer.concat([frame('C', Buffer.from(`${tag}\0`)), frame('Z', Buffer.from(status))])

const said = (events: readonly WireEvent[]): readonly string[] =>
  events.map(({ moment, transaction }) => `${moment} ${transaction.values.join()}`.trim())

function opened(): PostgresConversation {
  const conversation = new PostgresConversation()
  conversation.write(startup())
  return conversation
}

test('a transaction is followed from its first statement to the answer of its COMMIT', () => {
  const wire = opened()
  expect(wire.write(query('begin; set local lock_timeout = 100'))).toEqual([])
  expect(wire.read(answer('SET', 'T'))).toEqual([])
  expect(said(wire.write(prepared('insert into charges values ($1)', ['order-1'])))).toEqual([
    'before-first-statement order-1',
  ])
  expect(said(wire.read(answer('INSERT 0 1', 'T')))).toEqual(['after-first-statement order-1'])
  expect(said(wire.write(query("/* traced */ select 'b'; commit")))).toEqual([
    'before-commit order-1,b',
  ])
  expect(said(wire.read(answer('COMMIT', 'I')))).toEqual(['commit-answered order-1,b'])
  expect(wire.open).toEqual([])
})

test('a text that commits one transaction and begins the next belongs to each in its part', () => {
  const wire = opened()
  wire.write(query("begin; insert into processed_events values ('one')"))
  wire.read(answer('INSERT 0 1', 'T'))
  const chained = "commit; begin; insert into processed_events values ('two')"
  expect(said(wire.write(query(chained)))).toEqual(['before-commit one'])
  expect(said(wire.read(answer('COMMIT', 'T')))).toEqual(['commit-answered one'])
  expect(said(wire.write(query("insert into charges values ('of two')")))).toEqual([
    'before-first-statement two,of two',
  ])
})

test.each([
  ['set local synchronous_commit = on'],
  ["select 'a commit'"],
  ['select case when true then 1 end'],
  ['savepoint commit_here'],
])('%s is no COMMIT', (text) => {
  const wire = opened()
  wire.write(query('begin'))
  wire.read(answer('BEGIN', 'T'))
  const moments = wire.write(query(text)).map(({ moment }) => moment)
  expect(moments).toEqual(['before-first-statement'])
})

test('a COMMIT that the server answers with ROLLBACK is not committed', () => {
  const wire = opened()
  wire.write(query('begin'))
  wire.read(answer('BEGIN', 'T'))
  wire.write(query('commit'))
  expect(wire.read(answer('ROLLBACK', 'I'))).toEqual([])
  expect(wire.open).toEqual([])
})

test('messages in pieces are put together', () => {
  const wire = opened()
  wire.write(query('begin'))
  wire.read(answer('BEGIN', 'T'))
  const bytes = prepared('insert into charges values ($1)', ['order-1'])
  const events = [...bytes].flatMap((byte) => wire.write(Buffer.from([byte])))
  expect(said(events)).toEqual(['before-first-statement order-1'])
})

test('a statement that was prepared before is known by its name', () => {
  const wire = opened()
  wire.write(frame('P', Buffer.from('end\0commit\0\0\0')))
  wire.write(query('begin'))
  wire.read(answer('BEGIN', 'T'))
  const bind = frame('B', Buffer.from('\0end\0\0\0\0\0\0\0'))
  expect(said(wire.write(bind))).toEqual(['before-commit'])
})

test('after a yes to the question for TLS nothing is read; after a no everything is', () => {
  for (const [word, isRead] of [
    ['S', false],
    ['N', true],
  ] as const) {
    const wire = new PostgresConversation()
    wire.write(startup(SSL))
    wire.read(Buffer.from(word))
    wire.write(startup())
    expect(wire.isPostgres).toBe(isRead)
  }
})

test('other protocols are left alone', () => {
  const wire = new PostgresConversation()
  wire.write(Buffer.from('POST / HTTP/1.1\r\nhost: here\r\n\r\n'))
  expect([wire.isPostgres, wire.write(query('commit')), wire.read(answer('COMMIT', 'I'))]).toEqual([
    false,
    [],
    [],
  ])
})
