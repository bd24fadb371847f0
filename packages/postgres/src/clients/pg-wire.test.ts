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
