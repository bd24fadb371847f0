import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { VERSION } from './version.ts'

test('the scope has the version of the package', () => {
  const packageJson = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  expect(VERSION).toBe(JSON.parse(packageJson).version)
})
