import { expect, test } from 'vitest'
import { installation } from './fixtures/installation.ts'

test('without @opentelemetry/api the import says what is missing, and the health server works', async () => {
  await using installed = await installation()
  const imports = (name: string): Promise<string> => {
    const text = `const { healthServer } = await import('${name}'); console.log(typeof healthServer)`
    return installed.node('--input-type=module', '-e', text)
  }
  expect(await imports('@onceward/otel')).toContain("Cannot find package '@opentelemetry/api'")
  expect(await imports('@onceward/otel/health')).toContain('function')
})
