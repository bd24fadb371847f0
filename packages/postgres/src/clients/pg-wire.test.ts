import { EventEmitter } from 'node:events'
import type { Connection } from 'pg'
import { expect, test } from 'vitest'
import { wireSession } from './pg-wire.ts'

/** A connection in an open transaction, as far as it tells its listeners. */
function openTransaction() {
  const connection = new EventEmitter()
  const session = wireSession(connection as unknown as Connection)
  connection.emit('commandComplete', { text: 'BEGIN' })
  connection.emit('readyForQuery', { status: 'T' })
  return { connection, status: () => session.status(1), session }
}

test('an error of a statement fails the transaction', () => {
  const { connection, status } = openTransaction()
  expect(status()).toBe('open')
  connection.emit('errorMessage', { severity: 'ERROR', code: '57P01' })
  expect(status()).toBe('failed')
  connection.emit('readyForQuery', { status: 'E' })
  expect(status()).toBe('failed')
})

// Red when only the end of the socket counts: it comes later, and until then the handler seems to have failed.
test.each([
  { severity: 'FATAL', code: '57P01' },
  { severity: 'PANIC', code: 'XX000' },
  { severity: 'SCHWERWIEGEND', code: '57P01' },
])('$severity $code breaks the connection before its socket has ended', (error) => {
  const { connection, status, session } = openTransaction()
  connection.emit('errorMessage', error)
  expect(status()).toBe('broken')
  expect(session.hasEnded).toBe(false)
  connection.emit('end')
  expect(session.hasEnded).toBe(true)
})

test('a transaction is open until a statement begins or ends one', () => {
  const { connection, status, session } = openTransaction()
  connection.emit('commandComplete', { text: 'INSERT 0 1' })
  connection.emit('readyForQuery', { status: 'T' })
  expect([status(), session.boundaries, session.commands]).toEqual(['open', 1, 2])
  connection.emit('readyForQuery', { status: 'I' })
  expect([status(), session.isInTransaction]).toEqual(['ended', false])
})

// Red when only ReadyForQuery counts: the statements behind `commit; begin` would be committed with no claim.
test.each(['COMMIT', 'BEGIN', 'START TRANSACTION'])(
  'a transaction that was replaced by another has ended: %s',
  (text) => {
    const { connection, status, session } = openTransaction()
    connection.emit('commandComplete', { text })
    connection.emit('readyForQuery', { status: 'T' })
    expect([status(), session.isInTransaction]).toEqual(['ended', true])
  },
)

test('a connection that is not in a transaction is neither broken nor failed', () => {
  const connection = new EventEmitter()
  const session = wireSession(connection as unknown as Connection)
  // Red when it is taken for free before the server has said so: other code may have left a transaction open.
  expect([session.status(0), session.isInTransaction, session.hasEnded]).toEqual([
    ...['ended', undefined, false],
  ])
  connection.emit('readyForQuery', { status: 'I' })
  expect([session.status(0), session.isInTransaction]).toEqual(['ended', false])
  expect([session.isUnreplicated, session.encoding, session.endCode]).toEqual([
    ...[false, undefined, undefined],
  ])
})

test('a connection is listened to once', () => {
  const { connection, session } = openTransaction()
  expect(wireSession(connection as unknown as Connection)).toBe(session)
  expect(connection.listenerCount('commandComplete')).toBe(1)
})

// Red when a trigger that raises a shutdown's code breaks a connection that lives on.
test('an error is no end of the connection once the server is ready again', () => {
  const { connection, status, session } = openTransaction()
  connection.emit('errorMessage', { severity: 'FATAL', code: '57P01' })
  expect([status(), session.endCode]).toEqual(['broken', '57P01'])
  connection.emit('readyForQuery', { status: 'E' })
  expect([status(), session.endCode]).toEqual(['failed', undefined])
})

test.each([
  { severity: 'FEHLER', code: '23505' },
  { severity: 'FEHLER' },
  { severity: 'ERROR', code: '57P01' },
])('$severity $code fails a transaction, and does not break the connection', (error) => {
  const { connection, status, session } = openTransaction()
  connection.emit('errorMessage', error)
  expect([status(), session.endCode]).toEqual(['failed', undefined])
})

test('an error of the socket breaks the connection', () => {
  const { connection, status, session } = openTransaction()
  connection.emit('error', new Error('read ECONNRESET'))
  expect([status(), session.hasEnded]).toEqual(['broken', true])
})

// Red when the listener of pg is asked first: it throws where nobody listens to its client.
test('what ends a connection is seen although another listener throws', () => {
  const connection = new EventEmitter()
  const ends = ['errorMessage', 'end', 'error'] as const
  for (const name of ends) {
    connection.on(name, () => {
      throw new Error('nobody listens')
    })
  }
  const session = wireSession(connection as unknown as Connection)
  expect(() => connection.emit('errorMessage', { severity: 'FATAL' })).toThrow('nobody listens')
  expect([session.status(0), session.hasEnded]).toEqual(['broken', false])
  expect(() => connection.emit('end')).toThrow('nobody listens')
  expect(session.hasEnded).toBe(true)
})

test('the encoding is the one that the server tells', () => {
  const { connection, session } = openTransaction()
  connection.emit('parameterStatus', {
    ...{ parameterName: 'client_encoding', parameterValue: 'LATIN1' },
  })
  connection.emit('parameterStatus', { parameterName: 'TimeZone', parameterValue: 'UTC' })
  expect(session.encoding).toBe('LATIN1')
})

// Red when a warning of a trigger looks like a commit that was not replicated.
test.each([
  ['01000', 'SyncRepWaitForLSN', true],
  ['01000', 'exec_stmt_raise', false],
  ['00000', 'SyncRepWaitForLSN', false],
])('a notice %s of %s says that a commit was not replicated: %s', (code, routine, expected) => {
  const { connection, session } = openTransaction()
  connection.emit('notice', { code, routine })
  expect(session.isUnreplicated).toBe(expected)
})
