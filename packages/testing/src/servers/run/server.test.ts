import { afterEach, expect, test, vi } from 'vitest'
import { skipped } from './server.ts'

afterEach(() => vi.unstubAllEnvs())

test('only the services that ONCEWARD_SKIP names are skipped', () => {
  vi.stubEnv('ONCEWARD_SKIP', 'kafka, rabbitmq')
  expect(skipped('kafka')).toBe(true)
  expect(skipped('rabbitmq')).toBe(true)
  expect(skipped('redis')).toBe(false)
})

test('nothing is skipped without ONCEWARD_SKIP', () => {
  vi.stubEnv('ONCEWARD_SKIP', undefined)
  expect(skipped('kafka')).toBe(false)
})
