// @module-tag nightly

import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')
const sample = join(root, 'docs/samples/prisma')
/** Inside of the repository, where the generator finds Prisma's client. */
let made: string

beforeAll(async () => {
  made = await mkdtemp(join(root, 'node_modules/.cache/prisma-client-'))
})
afterAll(() => rm(made, { recursive: true, force: true }))

/** The text of each file below a directory. */
async function textsOf(directory: string): Promise<Readonly<Record<string, string>>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = names.filter((each) => each.isFile())
  const texts = files.map(async ({ name, parentPath }) => {
    const path = join(parentPath, name)
    return [path.slice(directory.length + 1), await readFile(path, 'utf8')] as const
  })
  return Object.fromEntries(await Promise.all(texts))
}

// Red when the schema has changed, or Prisma: `prisma generate --schema docs/samples/prisma/schema.prisma` writes it.
it('the committed client of Prisma is what its generator makes of the schema', async () => {
  const schema = join(made, 'schema.prisma')
  await cp(join(sample, 'schema.prisma'), schema)
  const committed = await textsOf(join(sample, 'generated'))
  expect(Object.keys(committed).length).toBeGreaterThan(5)
  const [, version] = /client: "([\d.]+)"/.exec(Object.values(committed).join('\n')) ?? []
  // Its hundred packages are installed in the night alone.
  await promisify(execFile)('npx', ['--yes', `prisma@${version}`, 'generate', '--schema', schema], {
    cwd: made,
    // The generator does not use the engine for migrations, which would be downloaded.
    env: {
      ...process.env,
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
      CHECKPOINT_DISABLE: '1',
    },
  })
  const generated = Object.entries(await textsOf(join(made, 'generated')))
  // What is for browsers is not committed.
  const forServers = generated.filter(([path]) => !/browser/i.test(path))
  expect(Object.fromEntries(forServers)).toEqual(committed)
})
