import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { root } from '../../scripts/docs.ts'
import { BROKER_NAMES, BROKERS } from '../brokers/index.ts'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const foldersIn = (path: string): readonly string[] =>
  readdirSync(join(root, path), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)

describe('the registry of brokers', () => {
  it('has every adapter, and a folder for each', () => {
    const adapters = foldersIn('packages').filter((name) =>
      existsSync(join(root, 'packages', name, 'src/consume.ts')),
    )
    expect(adapters.toSorted()).toEqual(BROKER_NAMES.toSorted())
    expect(foldersIn('test-e2e/brokers').toSorted()).toEqual(BROKER_NAMES.toSorted())
  })

  it.each(BROKER_NAMES)(
    '%s has a crash test, a page and the samples that it names',
    async (name) => {
      const { samples, docs } = BROKERS[name]
      expect(read(`test-e2e/brokers/${name}/crash.test.ts`)).toContain(`describeCrashes('${name}')`)
      const { page } = await docs()
      const files = [samples.quickStart, ...samples.guarded, ...samples.unguarded]
      const paths = [page, ...files.map((sample) => `docs/samples/${sample}.ts`)]
      expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
    },
  )

  it('has both transaction modes in the soak', () => {
    const modes = BROKER_NAMES.map((name) => BROKERS[name].traits.soakTransaction)
    expect(new Set(modes)).toEqual(new Set(['each', 'batch']))
  })
})

/** Files that compare the adapters with one another, take what one of two brokers has alone, or start a program for some of them. */
const COMPARING = [
  'test-e2e/behaviour/lambda/lambda.test.ts',
  'test-e2e/behaviour/outbox/service.test.ts',
  'test-e2e/examples/servers.ts',
  'test-e2e/prove/command.test.ts',
  'test-e2e/prove/consumers/shared.ts',
  'test-e2e/prove/proving.ts',
  'test-e2e/repository/siblings.test.ts',
  'test-e2e/repository/structure.test.ts',
  'test-e2e/versions/table.ts',
  'test-e2e/versions/versions.test.ts',
]

// Red when a suite, a script or a benchmark lists the brokers itself: a new broker would have to be added there.
it('no file outside the registry lists the brokers', () => {
  const listing = ['test-e2e', 'bench', 'scripts']
    .flatMap((directory) =>
      readdirSync(join(root, directory), { recursive: true, withFileTypes: true }).filter(
        (entry) => entry.isFile() && /\.(ts|mjs)$/.test(entry.name),
      ),
    )
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !/node_modules|^test-e2e\/brokers\//.test(file))
    .filter((file) => {
      const text = read(file)
      const named = BROKER_NAMES.filter((name) =>
        new RegExp(`['"]${name}['"]|^ +${name}:`, 'm').test(text),
      )
      return named.length > 1
    })
  expect(listing.toSorted()).toEqual(COMPARING)
})
