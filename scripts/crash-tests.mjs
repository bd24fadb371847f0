import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './process.mjs'

/** The registry has one crash test for each broker. */
export const crashTestOf = (broker) => `test-e2e/brokers/${broker}/crash.test.ts`

export const crashTests = () =>
  readdirSync(join(root, 'test-e2e/brokers'))
    .map(crashTestOf)
    .filter((file) => existsSync(join(root, file)))

/** The same for the servers of guarded routes. */
export const HTTP_CRASH_TEST = 'test-e2e/http/crash.test.ts'
