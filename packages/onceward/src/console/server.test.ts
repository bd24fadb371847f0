import { expect, test } from 'vitest'
import { createConsole } from './server.ts'

// Red before: the error event had no listener, so it ended the process.
test('a connection that the system cannot accept ends nothing', () => {
  const server = createConsole({} as never, {} as never)
  expect(server.emit('error', new Error('accept ENOMEM'))).toBe(true)
})
