import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Groups {
  readonly GROUPS: Readonly<
    Record<string, { readonly files: readonly string[]; readonly tests: readonly string[] }>
  >
  readonly TEXT_TESTS: Readonly<Record<string, readonly (readonly string[])[]>>
}
const { GROUPS, TEXT_TESTS }: Groups = await import(join(root, 'mutation/groups.mjs'))

/** Source files of all packages, without tests and what only tests use. */
function sources(): readonly string[] {
  return readdirSync(join(root, 'packages'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => /^packages\/[^/]+\/src\/(?!fixtures\/).*\.ts$/.test(path))
    .filter((path) => !/\.test(-d)?\.ts$/.test(path))
}

const missing = (paths: readonly string[]): readonly string[] =>
  paths.filter((path) => !path.includes('*') && !existsSync(join(root, path)))

/** The tests that a mutant of texts.json names, as the command finds them. */
const namedBy = (file: string, tests: readonly string[]): readonly string[] =>
  tests.map((name) => {
    const [source = ''] = /^packages\/[^/]+\/src/.exec(file) ?? []
    return `${source}/${name}${name.endsWith('.test') ? '' : '.int.test'}.ts`
  })

describe('mutation testing', () => {
  it('has every source file of packages in exactly one group', () => {
    const grouped = Object.values(GROUPS).flatMap(({ files }) => files)
    expect(grouped.toSorted()).toEqual(sources().toSorted())
  })

  // Red for a test that was renamed: Vitest fails when it finds none, which would count as a mutant that was noticed.
  it('names only tests that exist', () => {
    const named = [
      ...Object.values(GROUPS).flatMap(({ tests }) => tests),
      ...Object.values(TEXT_TESTS).flat(2),
    ]
    expect(missing(named)).toEqual([])
  })

  // Red without the aliases of mutation/vitest.config.ts: the linked node_modules hold the unchanged packages.
  it('runs the tests of a sandbox with the packages of the sandbox', () => {
    const sandbox = mkdtempSync(join(tmpdir(), 'onceward-sandbox-'))
    try {
      const filter = (path: string): boolean => !/\/(node_modules|dist)$/.test(path)
      const files = ['package.json', 'tsconfig.base.json', 'tsconfig.test.json']
      for (const path of ['packages', 'mutation/vitest.config.ts', ...files])
        cpSync(join(root, path), join(sandbox, path), { recursive: true, filter })
      symlinkSync(join(root, 'node_modules'), join(sandbox, 'node_modules'))
      writeFileSync(join(sandbox, 'packages/core/src/index.ts'), 'export const mutant = true\n')
      const test = 'packages/sqs/src/sandbox.test.ts'
      writeFileSync(
        join(sandbox, test),
        `import { mutant } from '@onceward/core'
import { expect, it } from 'vitest'
it('sees the mutant', () => expect(mutant).toBe(true))`,
      )
      const args = ['run', '--config', 'mutation/vitest.config.ts', test]
      const group = JSON.stringify({ tests: [test], servers: false })
      const { status, stdout, stderr } = spawnSync(join(root, 'node_modules/.bin/vitest'), args, {
        cwd: sandbox,
        encoding: 'utf8',
        env: { ...process.env, ONCEWARD_MUTATION_GROUP: group },
      })
      expect(`${status} ${stdout} ${stderr}`).toContain('1 passed')
    } finally {
      rmSync(sandbox, { recursive: true, force: true })
    }
  }, 60_000)

  const survivors = JSON.parse(
    readFileSync(join(root, 'mutation/survivors.json'), 'utf8'),
  ) as readonly Readonly<Record<'file' | 'line' | 'becomes' | 'why', string>>[]

  it.each(survivors)('$file, "$line": the explained mutant still is one', ({ file, line, why }) => {
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    expect(lines.map((each) => each.trim())).toContain(line)
    expect(why).not.toBe('')
  })

  const words = JSON.parse(
    readFileSync(join(root, 'mutation/texts.json'), 'utf8'),
  ) as readonly (Readonly<Record<'file' | 'find', string>> & {
    readonly tests?: readonly string[]
  })[]

  it.each(words)(
    '$file, "$find": the words of the mutant still stand',
    ({ file, find, tests = [] }) => {
      expect(readFileSync(join(root, file), 'utf8')).toContain(find)
      expect(missing(namedBy(file, tests))).toEqual([])
    },
  )
})
