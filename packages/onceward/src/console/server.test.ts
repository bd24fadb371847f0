import { expect, test } from 'vitest'
import { createConsole } from './server.ts'

// Red before: the error event had no listener, so it ended the process.
test('a connection that the system cannot accept ends nothing', () => {
  const access = {
    ...{ token: undefined, hosts: new Set<string>() },
    ...{ acceptsAddresses: false, allowsChanges: false },
  }
  const { server } = createConsole({ answer: async () => undefined }, access)
  // What Node does then: https://github.com/nodejs/node/blob/v24.0.0/lib/net.js, onconnection
  const error = Object.assign(new Error('accept ENOMEM'), { code: 'ENOMEM', syscall: 'accept' })
  expect(server.emit('error', error)).toBe(true)
})
