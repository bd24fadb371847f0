import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { isInstalled, needPeer } from './peers.ts'
import { nativeOrAdvice } from './resolve.ts'
import { ServerMissingError } from './server.ts'

/** As from a folder without any package. */
const { resolve: nothing } = createRequire('/nowhere/index.js')

test('a package that is missing is named with the command that installs it', () => {
  expect(isInstalled('kafkajs')).toBe(true)
  expect(isInstalled('kafkajs', nothing)).toBe(false)
  expect(() => needPeer('kafkajs', nothing)).toThrow(ServerMissingError)
  expect(() => needPeer('kafkajs', nothing)).toThrow('npm install --save-dev kafkajs')
})

test('a native server that is missing names the package that would run it in Docker', async () => {
  const error = new ServerMissingError('Kafka needs Java.')
  const native = () => Promise.reject(error)
  await expect(nativeOrAdvice({ native })).rejects.toThrow(
    /^Kafka needs Java\.\n.*npm install --save-dev testcontainers$/,
  )
  const other = new Error('broken')
  await expect(nativeOrAdvice({ native: () => Promise.reject(other) })).rejects.toBe(other)
})
