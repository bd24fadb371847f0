import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { DEFAULTS as AMQP_DEFAULTS } from '../../packages/amqp/src/options.ts'
import { DEFAULTS } from '../../packages/core/src/options/derived.ts'
import { DEFAULTS as KAFKA_DEFAULTS } from '../../packages/kafka/src/options.ts'
import { receiveBudget } from '../../packages/sqs/src/doctor.ts'
import { resolveSettings } from '../../packages/sqs/src/options.ts'
import { documents, read, render, root } from '../../scripts/docs.ts'
import { hasTest, NAMED_TEST, testFiles } from '../../scripts/docs-tests.ts'
import { ROWS } from '../crash/rows.ts'

const files = documents()
const withoutCode = (text: string): string => text.replace(/^```[\s\S]*?^```/gm, '')

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
    const links = [...withoutCode(read(file)).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)]
    const dead = links.filter(([, path = '', heading]) => {
      const target = path === '' ? file : join(dirname(file), path)
      if (!existsSync(join(root, target))) return true
      return heading !== undefined && !anchorsOf(read(target)).includes(heading)
    })
    expect(dead.map(([link]) => link)).toEqual([])
  })

  it.each(files)('%s names only commands of package.json', (file) => {
    const { scripts } = JSON.parse(read('package.json'))
    const named = [...read(file).matchAll(/npm run ([a-z:]+)/g)].map(([, name = '']) => name)
    expect(named.filter((name) => !(name in scripts))).toEqual([])
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

describe('docs/guarantees.md', () => {
  const named = [...read('docs/guarantees.md').matchAll(NAMED_TEST)]
  const tests = testFiles(root)

  it.each(named.map(([, file = '', title = '']) => [title, file]))(
    'has the test: %s',
    (title, file) => {
      const test = tests.find((each) => each.file === file)
      expect(test !== undefined && hasTest(test, title), `no such test in ${file}`).toBe(true)
    },
  )

  it('names at least one test for every promise', () => {
    const promises = read('docs/guarantees.md')
      .split(/^## /m)
      .slice(1)
      .filter((section) => !/^(Words|Bounds|Not promised)\n/.test(section))
    expect(promises.length).toBeGreaterThan(4)
    for (const promise of promises) expect(promise).toMatch(NAMED_TEST)
  })
})

/** First cells of the failure table. */
function failureRows(file: string): readonly string[] {
  const [, table = ''] = read(file).split(/^\| The process dies … .*\n.*\n/m)
  const [rows = ''] = table.split('\n\n')
  return rows.split('\n').map((row) => (row.split('|')[1] ?? '').trim())
}

describe('the README', () => {
  it('wraps a handler in fifteen lines', () => {
    const lines = read('docs/samples/first-screen.ts').split('\n')
    expect(lines.filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(15)
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

  it('tells rows of docs/failures.md by their names', () => {
    expect(failureRows('docs/failures.md')).toEqual(
      expect.arrayContaining([...failureRows('README.md')]),
    )
    expect(failureRows('README.md').length).toBeGreaterThanOrEqual(5)
  })
})

it.each(['README.md', 'docs/sqs.md'])(
  '%s asks for the queue that the checks at start ask for',
  (file) => {
    const guard = {
      ...DEFAULTS,
      ...{ consumer: 'billing', hasInbox: true, hasLeases: false, lanesAreUsers: false },
      ...{ maxAttempts: DEFAULTS.retry.attempts, retryMaxMs: DEFAULTS.retry.maxMs },
    }
    const { visibilityMs } = resolveSettings({ queueUrl: 'https://sqs.test/1/orders' }, guard)
    expect(read(file)).toContain(`${visibilityMs / 1_000} s or more`)
    const count = /`maxReceiveCount`[ |]*(\d+) or more/.exec(read(file))?.[1]
    expect(count).toBe(String(receiveBudget(guard, visibilityMs)))
  },
)

/** The lines of a quick start that say something of their broker. */
const BROKERS_OWN =
  /sqs|kafka|amqp|rabbitmq|queue|topic|producer|deadLetter|deadUrl|signal: stop\.signal,$|^\}\)$/i

it.each(['kafka', 'amqp'])(
  'the quick starts of sqs and %s differ in lines of the broker alone',
  (name) => {
    const lines = (broker: string): string[] => read(`docs/samples/${broker}-pg.ts`).split('\n')
    const [ours, sqs] = [lines(name), lines('sqs')]
    const differing = [
      ...ours.filter((line) => !sqs.includes(line)),
      ...sqs.filter((line) => !ours.includes(line)),
    ]
    expect(differing.length).toBeGreaterThan(3)
    expect(differing.filter((line) => !BROKERS_OWN.test(line))).toEqual([])
  },
)

it('docs/kafka.md and docs/rabbitmq.md tell the defaults that the code has', () => {
  const kafka = read('docs/kafka.md')
  expect(kafka).toContain(`**\`sessionTimeout\`** (${KAFKA_DEFAULTS.sessionTimeoutMs / 1_000} s)`)
  for (const ms of AMQP_DEFAULTS.retryLevelsMs) {
    expect(read('docs/rabbitmq.md')).toMatch(new RegExp(`orders\\.retry\\.[0-9 /]*\\b${ms}\\b`))
  }
})

it('docs/failures.md has one row for every crash test', () => {
  expect(failureRows('docs/failures.md')).toEqual([...new Set(ROWS.map(({ title }) => title))])
})
