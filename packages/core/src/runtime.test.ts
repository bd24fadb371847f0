import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const AMBIENT =
  /\b(setTimeout|setInterval|setImmediate|Date\.now|new Date\(\)|Math\.random|performance\.now|randomUUID|getRandomValues|hrtime)\b/

test('nothing but runtime.ts reaches for time, randomness or ids', () => {
  const folder = new URL('.', import.meta.url)
  const offenders = readdirSync(folder)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && name !== 'runtime.ts')
    .filter((name) => AMBIENT.test(readFileSync(new URL(name, folder), 'utf8')))
  // A delivery for unit tests is made outside of any guard.
  expect(offenders).toEqual(['to-delivery.ts'])
})
