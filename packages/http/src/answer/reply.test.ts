import { expect, test } from 'vitest'
import { isBodyless, toNodeHeaders, toWebResponse } from './reply.ts'

const headers = [
  ['x-a', 'b'],
  ['set-cookie', 'a=1'],
  ['set-cookie', 'b=2'],
] as const

test('a Response has what the answer has, and nothing besides', async () => {
  for (const body of ['ü', Uint8Array.from(Buffer.from('ü'))]) {
    const response = toWebResponse({ status: 201, headers, body })
    expect([response.status, [...response.headers], await response.text()]).toEqual([
      201,
      headers.toSorted(([a], [b]) => a.localeCompare(b)),
      'ü',
    ])
  }
})

test.each([204, 205, 304])('an answer of status %i has no body', (status) => {
  expect(isBodyless(status)).toBe(true)
  expect(toWebResponse({ status, headers: [], body: '' }).body).toBeNull()
})

test.each([200, 203, 206, 303])('an answer of status %i may have a body', (status) => {
  expect(isBodyless(status)).toBe(false)
  expect(toWebResponse({ status, headers: [], body: '' }).body).not.toBeNull()
})

test('the servers of Node get cookies as a list', () => {
  const reply = { status: 200, body: '' }
  expect(toNodeHeaders({ ...reply, headers })).toEqual({ 'x-a': 'b', 'set-cookie': ['a=1', 'b=2'] })
  expect(toNodeHeaders({ ...reply, headers: [['x-a', 'b']] })).toEqual({ 'x-a': 'b' })
})
