import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { dashboard } from '../ops/dashboard.ts'
import { toDelivery } from '../packages/core/src/memory/to-delivery.ts'
import { deadLetterHeaders } from '../packages/core/src/settlement/dead-letter-headers.ts'
import { adapterSizes } from './docs-adapters.ts'
import { configurationTable } from './docs-configurations.ts'
import { doubledPicture } from './docs-doubled.ts'
import { EDGE_PICTURES } from './docs-edges.ts'
import { errorTable } from './docs-errors.ts'
import { experimentalClient, kafkaClientTable } from './docs-kafka-clients.ts'
import { attemptTable, stateMachineTable } from './docs-machine.ts'
import { metricTable } from './docs-metrics.ts'
import { OPTION_TABLES } from './docs-options.ts'
import { ormCases, ormHabitTable } from './docs-orms.ts'
import { code } from './docs-table.ts'
import { testFiles, trapChapters, withFiles } from './docs-tests.ts'
import { userFunctionTable } from './docs-user-functions.ts'
import { versionTable } from './docs-versions.ts'

/** Absolute path of the repository. */
export const root: string = fileURLToPath(new URL('..', import.meta.url))

/** Everything that may ask for rendered parts, relative to the repository. */
export function documents(): readonly string[] {
  const inside = (directory: string): string[] =>
    readdirSync(join(root, directory))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${directory}/${name}`)
  const packages = readdirSync(join(root, 'packages')).flatMap((name) => inside(`packages/${name}`))
  return ['README.md', ...inside('docs'), ...packages]
}

export const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const PART = /(<!-- render (\S+)(?: (\S+))? -->\n)(?:(?!<!-- )[\s\S])*?(<!-- end -->)/g

const RENDERERS: Readonly<Record<string, (argument: string) => string>> = {
  sample: (file) => `\`\`\`ts\n${read(file).trimEnd()}\n\`\`\``,
  options: (name) => known(OPTION_TABLES[name], `options ${name}`)(),
  errors: errorTable,
  configurations: configurationTable,
  'user-functions': userFunctionTable,
  'state-machine': stateMachineTable,
  attempts: attemptTable,
  'dead-letter-headers': headerList,
  'adapter-sizes': adapterSizes,
  'kafka-clients': () => kafkaClientTable(read('packages/kafka/src/clients/clients.int.test.ts')),
  'kafka-experimental': experimentalClient,
  metrics: metricTable,
  orms: ormCases,
  'orm-habits': ormHabitTable,
  versions: versionTable,
  traps: () => trapChapters(testFiles(root)),
}

function headerList(): string {
  const now = new Date()
  const letter = {
    ...({ ref: { kind: 'refused', id: '' }, reason: 'fatal', attempts: 1 } as const),
    ...{ consumer: 'c', key: 'k', error: 'e', firstFailedAt: now, lastFailedAt: now },
    delivery: toDelivery(null, { source: { broker: 'sqs', queue: 'q', position: 'p' } }),
  }
  return Object.keys(deadLetterHeaders(letter)).map(code).join(', ')
}

function known<Renderer>(renderer: Renderer | undefined, name: string): Renderer {
  if (renderer === undefined) throw new Error(`There is nothing to render called "${name}".`)
  return renderer
}

/** The text with every part between `<!-- render … -->` and `<!-- end -->` made anew from the code. */
export function render(text: string): string {
  const rendered = text.replace(
    PART,
    (_part, start: string, name: string, argument = '', end: string) =>
      `${start}${known(RENDERERS[name], name)(argument)}\n${end}`,
  )
  return withFiles(rendered, testFiles(root))
}

const dashboardText = (): string => `${JSON.stringify(dashboard(), null, 2)}\n`

/** Files that come from the code as a whole, by path. */
export const FILES: Readonly<Record<string, () => string | Promise<string>>> = {
  ...EDGE_PICTURES,
  'docs/doubled.svg': () => doubledPicture(read('docs/benchmarks.md')),
  'ops/dashboard.json': dashboardText,
  // An example is copied as it is, so it has files of its own.
  'examples/telemetry-grafana/grafana/dashboards/onceward.json': dashboardText,
  'examples/telemetry-grafana/prometheus/alerts.yaml': () => read('ops/alerts.yaml'),
}

if (import.meta.main) {
  for (const [file, write] of Object.entries(FILES)) writeFileSync(join(root, file), await write())

  for (const file of documents()) {
    const text = read(file)
    const rendered = render(text)
    if (rendered === text) continue
    writeFileSync(join(root, file), rendered)
    console.log(`rendered ${file}`)
  }
}
