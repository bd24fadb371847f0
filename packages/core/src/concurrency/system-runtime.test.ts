import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const AMBIENT =
  /\b(setTimeout|setInterval|setImmediate|Date\.now|new Date\(\)|Math\.random|performance\.now|randomUUID|getRandomValues|hrtime)\b/

test('only system-runtime.ts uses time, randomness and ids of the system', () => {
  const folder = new URL('..', import.meta.url)
  const offenders = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .filter((name) => name !== 'concurrency/system-runtime.ts' && !name.startsWith('fixtures/'))
    .filter((name) => AMBIENT.test(readFileSync(new URL(name, folder), 'utf8')))
  // `setImmediate` is not time, and deliveries for unit tests are made outside of any guard.
  expect(offenders.toSorted()).toEqual(['concurrency/next-turn.ts', 'memory/to-delivery.ts'])
})
