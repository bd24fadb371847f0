import '../../docs/samples/unit-test.ts'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { RUN_DEFAULTS } from '@onceward/core/adapter'
import { transformSync } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { documents, FILES, read, render, root } from '../../scripts/docs.ts'
import {
  hasTest,
  NAMED_TEST,
  testFiles,
  trapChapters,
  trapTests,
} from '../../scripts/docs-tests.ts'
import { BROKER_NAMES, BROKERS } from '../brokers/index.ts'
import { ROWS } from '../crash/rows.ts'
import { missingFrom, namedIn } from './named-in-docs.ts'

const files = documents()
const REPOSITORY = 'https://github.com/onceward/onceward'
/** The text with links to this repository as links to its files. */
const withFiles = (text: string, file: string): string =>
  text
    .replaceAll(`](${REPOSITORY}/blob/main/`, `](${relative(dirname(file), '') || '.'}/`)
    .replaceAll(`](${REPOSITORY}#`, `](${relative(dirname(file), 'README.md')}#`)
const withoutCode = (text: string): string => text.replace(/^```[\s\S]*?^```/gm, '')

it.each(Object.entries(FILES))(
  '%s is what the code writes; if not, run `npm run docs`',
  async (file, write) => {
    expect(read(file)).toBe(await write())
  },
)

describe('every document', () => {
  it.each(files)('%s says what the code says; if not, run `npm run docs`', (file) => {
    expect(read(file)).toBe(render(read(file)))
  })

  it.each(files)('%s shows no TypeScript but the samples, which are compiled', (file) => {
    const blocks = read(file).match(/^```ts$/gm) ?? []
    const rendered = read(file).match(/^<!-- render sample \S+ -->\n```ts$/gm) ?? []
    expect(rendered).toHaveLength(blocks.length)
  })

  it.each(files)('%s links to files and headings that exist', (file) => {
    const text = withFiles(withoutCode(read(file)), file)
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)]
    const dead = links.filter(([, path = '', heading]) => {
      const target = path === '' ? file : join(dirname(file), path)
      if (!existsSync(join(root, target))) return true
      return (
        !['readme', undefined].includes(heading) && !anchorsOf(read(target)).includes(heading ?? '')
      )
    })
    expect(dead.map(([link]) => link)).toEqual([])
  })

  it.each(files)('%s names only files that exist', (file) => {
    const { paths } = namedIn(withoutCode(read(file)))
    const ours = paths.filter((path) => /^(packages|test-e2e|bench|scripts|docs)\//.test(path))
    expect(missingFrom(ours.map((path) => `\`${path}\``).join('\n'))).toEqual([])
  })

  it.each(files)('%s names only commands of package.json', (file) => {
    const { scripts } = JSON.parse(read('package.json'))
    const named = [...read(file).matchAll(/npm run ([a-z:]+)/g)].map(([, name = '']) => name)
    expect(named.filter((name) => !(name in scripts))).toEqual([])
  })
})

interface Manifest {
  readonly name: string
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

const SAMPLES = readdirSync(join(root, 'docs/samples'))
  .filter((name) => name.endsWith('.ts'))
  .map((name) => `docs/samples/${name}`)

// Red before: `await using` is a syntax error in Node 22.
it.each(SAMPLES)('%s has no syntax that Node 22 cannot parse', (file) => {
  const tsconfigRaw = { compilerOptions: { experimentalDecorators: true } }
  const lowered = (target: string) =>
    transformSync(read(file), { loader: 'ts', target, tsconfigRaw }).code
  expect(lowered('node22')).toBe(lowered('esnext'))
})

// npm shows them without the repository around them.
describe('the README of a package', () => {
  const readmes = files.filter((file) => file.startsWith('packages/'))

  // `npm create` installs it.
  const installed = readmes.filter((file) => !file.startsWith('packages/create-onceward/'))

  it.each(installed)('%s says how to install it with what it needs, and shows its use', (file) => {
    const manifest: Manifest = JSON.parse(read(join(dirname(file), 'package.json')))
    const { name, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
    const needed = Object.keys(peerDependencies).filter(
      (peer) => peerDependenciesMeta[peer]?.optional !== true,
    )
    const [, line = ''] = /^```sh\n(npm (?:install|create) .*)$/m.exec(read(file)) ?? []
    // `npm create onceward` installs create-onceward.
    const installed = line.startsWith('npm create') ? name.replace('create-', '') : name
    expect(line.split(' ')).toEqual(expect.arrayContaining([installed, ...needed]))
    expect(read(file)).toMatch(/^<!-- render sample |^npx onceward |^npm create /m)
  })

  it.each(readmes)('%s has links that work outside of the repository', (file) => {
    expect(withoutCode(read(file))).not.toMatch(/\]\((?!https:)/)
  })
})

/** As GitHub makes them of headings. */
function anchorsOf(text: string): readonly string[] {
  return [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

const tests = testFiles(root)
const named = files.flatMap((file) => [...read(file).matchAll(NAMED_TEST)])

// `$` in a title would be read as the name of a column.
describe.each([...new Set(named.map(([, file = '']) => file))])(
  '%s, which a document names',
  (file) => {
    it('has the tests that documents name', () => {
      const titles = named.flatMap(([, of, title = '']) => (of === file ? [title] : []))
      const test = tests.find((each) => each.file === file)
      expect(titles.filter((title) => test === undefined || !hasTest(test, title))).toEqual([])
    })
  },
)

describe('docs/guarantees.md', () => {
  it('names at least one test for every promise and every bound', () => {
    const promises = read('docs/guarantees.md')
      .split(/^##+ /m)
      .slice(1)
      .filter((section) => !/^(Words|Bounds|Not promised)\n/.test(section))
    expect(promises.length).toBeGreaterThan(10)
    for (const promise of promises) expect(promise).toMatch(NAMED_TEST)
  })
})

describe('docs/traps.md', () => {
  const numbered = (letter: string, count: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${letter}${index + 1}`)
  const file = (text: string) => ({ file: 'packages/amqp/src/a.test.ts', text })

  it('has a test for each of the forty traps and of the twenty acceptance tests', () => {
    const named = trapTests(testFiles(root)).flatMap(({ name }) => name.split(' and '))
    const known = [...numbered('T', 40), ...numbered('A', 20)]
    expect(known.filter((name) => !named.includes(name))).toEqual([])
    expect(named.filter((name) => !known.includes(name))).toEqual([])
  })

  it('takes no trap of a broker for an acceptance test of the same number', () => {
    // Not written as titles are: this file is searched for titles too.
    const titles = ['trap |A2: a', 'acceptance |A2: b', 'trap |T5, acceptance A4: c', '|A9: d']
    const texts = titles.map((title) => file(`test('${title.replace('|', '')}'`))
    expect(trapTests(texts).map(({ name }) => name)).toEqual(['A2', 'T5 and A4'])
    expect(trapChapters(texts)).toBe(
      ['T5', 'A2', 'A4']
        .map((name) => `### ${name}\n\n\`packages/amqp/src/a.test.ts\``)
        .join('\n\n'),
    )
  })

  it('tells the story of each trap, with a link to its tests', () => {
    const story = read('docs/traps.md')
    for (const trap of numbered('T', 40)) {
      expect(story).toMatch(
        new RegExp(
          `^### ${trap}\\. .+\n\n_Seen in .+_ .+ \\*\\*Cost:\\*\\* .+ \\*\\*Here:\\*\\* .+ \\[Tests\\]\\(trap-tests\\.md#${trap.toLowerCase()}\\)$`,
          'm',
        ),
      )
    }
  })
})

/** First cells of the failure table. */
function failureRows(file: string): readonly string[] {
  const [, table = ''] = read(file).split(/^\| The process dies … .*\n.*\n/m)
  const [rows = ''] = table.split('\n\n')
  return rows.split('\n').map((row) => (row.split('|')[1] ?? '').trim())
}

const linesOf = (sample: string): number =>
  read(`docs/samples/${sample}.ts`)
    .split('\n')
    .filter((line) => line.trim() !== '').length

/** The pages about requests, besides those about brokers. */
const EDGES = ['http', 'webhooks', 'lambda'] as const

describe.each(EDGES)('the page about %s', (name) => {
  const samples: Readonly<Record<typeof name, string>> = {
    http: 'http-express',
    webhooks: 'webhooks-stripe',
    lambda: 'lambda-sqs',
  }

  it('shows a handler before and after', () => {
    const [, section = ''] = read(`docs/${name}.md`).split(/^## (?=Before and after$)/m)
    const [beforeAndAfter = ''] = section.split(/^## /m)
    const shown = [...beforeAndAfter.matchAll(/render sample docs\/samples\/(\S+)\.ts/g)]
    expect(shown.map(([, sample]) => sample)).toEqual([`${name}-before`, samples[name]])
  })
})

it('the sample for Express has fifteen lines, and that for Lambda ten', () => {
  expect(linesOf('http-express')).toBeLessThanOrEqual(15)
  expect(linesOf('lambda-sqs')).toBeLessThanOrEqual(10)
})

describe('the README', () => {
  it('wraps a handler in fifteen lines', () => {
    expect(linesOf('first-screen')).toBeLessThanOrEqual(15)
  })

  it('names the four edges before its first sample', () => {
    const [beginning = ''] = read('README.md').split('```')
    expect(beginning).toContain('**consumers**')
    for (const name of EDGES) expect(beginning).toContain(`(docs/${name}.md)`)
  })

  it('shows the lines that the demo prints', () => {
    const [, block = ''] = read('README.md').split(/^```\n(?=counted in Postgres)/m)
    const labels = (block.split('\n\n')[0] ?? '')
      .split('\n')
      .map((line) => line.split(/(?<=\S) {2,}/)[0] ?? '')
      .filter((label) => !label.startsWith('─'))
    expect(labels.length).toBeGreaterThan(5)
    const printed = read('test-e2e/demo/report.ts')
    expect(labels.filter((label) => !printed.includes(`('${label}'`))).toEqual([])
  })

  it('has at most 150 lines', () => {
    expect(read('README.md').split('\n').length).toBeLessThanOrEqual(150)
  })
})

describe.each(BROKER_NAMES)('the pages about %s', (name) => {
  it('state the figures that the code has', async () => {
    const { page, told } = await BROKERS[name].docs()
    expect(read('README.md')).toContain(page)
    expect(read('docs/configuration.md')).toContain(`<!-- render options ${name} -->`)
    for (const { file, text } of told) expect(read(file), file).toMatch(text)
  })
})

/** Lines that are about a broker in any quick start. */
const ABOUT_BROKER = /deadLetter|signal: stop\.signal,$|^\}\)$/

const [first, ...others] = BROKER_NAMES.map((name) => BROKERS[name].samples)

it.each(others.map(({ quickStart, ownLines }) => [quickStart, ownLines] as const))(
  'the quick start %s differs from the first one only in lines about the broker',
  (quickStart, ownLines) => {
    const lines = (sample = ''): string[] => read(`docs/samples/${sample}.ts`).split('\n')
    const [ours, theirs] = [lines(quickStart), lines(first?.quickStart)]
    const differing = [
      ...ours.filter((line) => !theirs.includes(line)),
      ...theirs.filter((line) => !ours.includes(line)),
    ]
    const isOwn = (line: string): boolean =>
      [ABOUT_BROKER, ownLines, first?.ownLines].some((pattern) => pattern?.test(line))
    expect(differing.length).toBeGreaterThan(3)
    expect(differing.filter((line) => !isOwn(line))).toEqual([])
  },
)

it('docs/failures.md has one row for every crash test', () => {
  expect(failureRows('docs/failures.md')).toEqual([...new Set(ROWS.map(({ title }) => title))])
})

it('docs/operations.md explains every cause of a deferral, and no other', () => {
  const union = /export type DeferCause =(.*?)export type/s.exec(
    read('packages/core/src/model/settlement.ts'),
  )?.[1]
  const causes = [...(union ?? '').matchAll(/\| '([\w-]+)'/g)].map(([, cause]) => cause)
  const section = /## Why was a delivery deferred\?(.*?)\n## /s.exec(
    read('docs/operations.md'),
  )?.[1]
  const rows = (section ?? '').split('\n').filter((line) => line.startsWith('| `'))
  const explained = rows.flatMap((row) => {
    return [...(row.split('|')[1] ?? '').matchAll(/`([\w-]+)`/g)].map(([, cause]) => cause)
  })
  expect(causes.length).toBeGreaterThan(10)
  expect(explained.toSorted()).toEqual(causes.toSorted())
})

it('the grace period of ops/kubernetes.yaml is longer than a drain', () => {
  const { spec } = parse(read('ops/kubernetes.yaml')).spec.template
  const longestMs = RUN_DEFAULTS.drainMs + 12_000
  expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(longestMs / 1_000)
})
