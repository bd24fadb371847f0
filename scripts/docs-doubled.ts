/** What a reader calls each contestant of the benchmark `rivals`, and how it decides. */
const NAMES: Readonly<Record<string, readonly [name: string, how: string]>> = {
  unguarded: ['No deduplication', 'the handler alone'],
  'message-queue-toolkit': ['message-queue-toolkit', 'a mark in Redis'],
  powertools: ['Powertools for AWS Lambda', 'a mark in Redis'],
  'pg-transactional-outbox': ['pg-transactional-outbox', 'a row in the same transaction'],
  'on-conflict': ['By hand', 'insert … on conflict, same transaction'],
  each: ['onceward', 'a row in the same transaction'],
  'each-redis': ['onceward with Redis', 'the same row; Redis only saves queries'],
}

interface Bar {
  readonly name: string
  readonly how: string
  readonly doubled: number
  /** When Redis loses its data or is down; undefined for what uses none. */
  readonly worst: number | undefined
}

/** The rows of the table "Lost / doubled of 300, ten SIGKILLs" in docs/benchmarks.md. */
function barsOf(benchmarks: string): readonly Bar[] {
  const [, table = ''] = benchmarks.split('| Lost / doubled of 300, ten SIGKILLs |')
  return [...(table.split('\n\n')[0] ?? '').matchAll(/^\| `([\w-]+)`[^|]*\|(.*)\|$/gm)].map(
    ([, key = '', cells = '']) => {
      const [name, how] = NAMES[key] ?? []
      if (name === undefined || how === undefined) throw new Error(`${key} has no plain name`)
      const doubled = cells
        .split('|')
        .map((cell) => /\/ \**(\d+)/.exec(cell)?.[1])
        .filter((count) => count !== undefined)
        .map(Number)
      const [alone = 0, ...others] = doubled
      return {
        name,
        how,
        doubled: alone,
        worst: others.length === 0 ? undefined : Math.max(...others),
      }
    },
  )
}

const [WIDTH, LEFT, TOP, STEP, BAR] = [760, 300, 74, 40, 20]
const UNIT = 4.6

const STYLE = `
  svg { color-scheme: light dark; font: 14px system-ui, -apple-system, "Segoe UI", sans-serif }
  .card { fill: #ffffff; stroke: #d3d9df } .text { fill: #1b1f24 } .quiet { fill: #4f5965; font-size: 12px }
  .title { font-size: 17px; font-weight: 600 } .name { font-weight: 600 } .bad { fill: #c0263c } .worst { fill: #c0263c; opacity: 0.35 }
  .good { fill: #0f6a2a; font-weight: 700 } .axis { stroke: #8b949e }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d } .text { fill: #e6edf3 } .quiet { fill: #a3afbc }
    .bad, .worst { fill: #ff7b86 } .good { fill: #6fdd8b } .axis { stroke: #6e7681 }
  }`

/** The picture of the README: how many effects each approach doubles, with the figures of docs/benchmarks.md. */
export function doubledPicture(benchmarks: string): string {
  const bars = barsOf(benchmarks)
  const height = TOP + bars.length * STEP + 46
  const end = TOP + bars.length * STEP - 6
  const label = bars.map(({ doubled, name }) => `${name}: ${doubled}`).join(', ')
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Effects doubled of 300 after ten SIGKILLs. ${label}">
<style>${STYLE}
</style>
<rect class="card" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="10"/>
<text class="text title" x="24" y="36">Effects that are there twice, of 300, after ten SIGKILLs</text>
<text class="quiet" x="24" y="56">Same handler, same SQS messages, killed before the commit and between the commit and the acknowledgement</text>
${bars.map((bar, at) => barSvg(bar, TOP + at * STEP)).join('\n')}
<path class="axis" d="M${LEFT} ${TOP - 2}V${end}" fill="none"/>
<rect class="bad" x="24" y="${height - 31}" width="12" height="12" rx="2"/><text class="quiet" x="42" y="${height - 21}">workers are killed</text>
<rect class="worst" x="164" y="${height - 31}" width="12" height="12" rx="2"/><text class="quiet" x="182" y="${height - 21}">and Redis is emptied or down, whichever is worse</text>
</svg>
`
}

function barSvg({ doubled, how, name, worst = 0 }: Bar, y: number): string {
  const most = Math.max(doubled, worst)
  const value =
    most === 0
      ? `<text class="good" x="${LEFT + 10}" y="${y + 15}">0</text>`
      : `<text class="text" x="${LEFT + most * UNIT + 8}" y="${y + 15}">${doubled}${worst > doubled ? ` <tspan class="quiet">to ${worst}</tspan>` : ''}</text>`
  const rect = (kind: string, count: number): string =>
    count === 0
      ? ''
      : `<rect class="${kind}" x="${LEFT}" y="${y}" width="${(count * UNIT).toFixed(1)}" height="${BAR}" rx="2"/>`
  return `<text class="text name" x="${LEFT - 12}" y="${y + 9}" text-anchor="end">${name}</text><text class="quiet" x="${LEFT - 12}" y="${y + 25}" text-anchor="end">${how}</text>${rect('worst', worst)}${rect('bad', doubled)}${value}`
}
