import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { database, type RedisConnection, redis, type Server } from '@onceward/testing'
import * as esbuild from 'esbuild'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BundleReport } from './app.ts'

const APP = join(import.meta.dirname, 'app.ts')
const CONDITIONS = ['@onceward/source', 'node']
// pg asks for its native twin, which is not installed, and survives that.
const EXTERNAL = ['pg-native', 'pg-cloudflare']
// What CommonJS packages in an ESM bundle need: `require` of Node's own modules.
const BANNER =
  "import { createRequire as _createRequire } from 'node:module'; const require = _createRequire(import.meta.url);"

type Bundle = (outfile: string, minify: boolean) => Promise<void>

const BUNDLERS: Readonly<Record<string, Bundle>> = {
  esbuild: async (outfile, minify) => {
    await esbuild.build({
      ...{ entryPoints: [APP], bundle: true, platform: 'node', format: 'esm', outfile, minify },
      ...{ conditions: CONDITIONS, external: EXTERNAL, banner: { js: BANNER }, logLevel: 'error' },
    })
  },
  rolldown: async (file, minify) => {
    await using bundle = await rolldown({
      ...{ input: APP, platform: 'node', external: EXTERNAL, logLevel: 'warn' },
      resolve: { conditionNames: CONDITIONS },
    })
    await bundle.write({ file, format: 'esm', minify, codeSplitting: false })
  },
}

let cache: Server<RedisConnection>
let directory: string
beforeAll(async () => {
  cache = await redis()
  // Far from the repository: what the bundle does not hold is not found.
  directory = await mkdtemp(join(tmpdir(), 'onceward-bundle-'))
})
afterAll(async () => {
  await cache.stop()
  await rm(directory, { recursive: true, force: true })
})

async function runBundle(bundler: string, minify: boolean): Promise<BundleReport> {
  const outfile = join(directory, `${bundler}-${minify ? 'small' : 'plain'}.mjs`)
  await BUNDLERS[bundler]?.(outfile, minify)
  const env = {
    ...process.env,
    DATABASE_URL: (await database()).url,
    REDIS_PORT: String(cache.connection.port),
  }
  const { stdout } = await promisify(execFile)(process.execPath, [outfile], {
    cwd: directory,
    env,
    timeout: 60_000,
  })
  return JSON.parse(stdout)
}

describe.each(Object.keys(BUNDLERS))('a program bundled by %s into one file', (bundler) => {
  // Red when SQL or Lua is read from files, and, minified, when a class of Kysely is known by its name.
  test.each([
    ['as it is', false],
    ['minified', true],
  ])('%s has the SQL and the Lua, and outlives a lost connection', async (_, minify) => {
    expect(await runBundle(bundler, minify)).toEqual({
      applied: [
        '000001-inbox.sql',
        '000002-leases.sql',
        '000003-workers.sql',
        '000004-outbox.sql',
        '000005-kafka-offsets.sql',
        '000006-outbox-leases.sql',
        '000007-pauses.sql',
        '000008-removed-consumers.sql',
      ],
      settled: {
        pg: ['processed', 'duplicate'],
        kysely: ['processed', 'duplicate'],
        postgresLeases: ['processed', 'duplicate'],
      },
      afterLoss: 'defer',
      errorName: 'FatalError',
    })
  })
})
