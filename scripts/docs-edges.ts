import type { Fault, Plan } from '../test-e2e/simulation/faults/plan.ts'
import { runPlan } from '../test-e2e/simulation/run/run.ts'
import { BROKER, POSTGRES, type Row, type Told, tell } from '../test-e2e/simulation/run/told.ts'

interface Edge {
  readonly title: string
  readonly plan: Plan
}

const PLAN: Plan = {
  seed: 1,
  ...{ composition: 'inbox', transaction: 'each', broker: 'queue', policy: 'even' },
  ...{ processes: 1, loops: 1, batchSize: 1, maxAttempts: 3, isPlain: true },
  events: [{ key: 'order-1', behaviour: { kind: 'ok' }, lane: undefined }],
  messages: [{ event: 0, variant: 'plain' }],
  faults: [],
}

/** A fault that strikes when the simulation has come to a scheduling point. */
const strikes = (kind: Fault['kind'], label: string, ms = 0): readonly Fault[] => [
  { kind, at: { label, nth: 1 }, process: 0, ms, target: 0 },
]

const EDGES: Readonly<Record<string, Edge>> = {
  'killed-before-commit': {
    title: 'A worker is killed before the COMMIT',
    plan: { ...PLAN, faults: strikes('crash', 'commit>') },
  },
  'killed-after-commit': {
    title: 'A worker is killed after the COMMIT, before the acknowledgement',
    plan: { ...PLAN, faults: strikes('crash', 'ack>') },
  },
  copies: {
    title: 'Two workers get the same event at the same time',
    // With this seed one worker waits at the row while the other one commits.
    plan: { ...PLAN, seed: 13, processes: 2, messages: [...PLAN.messages, ...PLAN.messages] },
  },
  outage: {
    title: 'Postgres restarts between the COMMIT and its answer',
    plan: { ...PLAN, faults: strikes('pg-restart', 'commit<', 5_000) },
  },
}

const STYLE = `
  svg { color-scheme: light dark; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .card { fill: #ffffff; stroke: #d3d9df } .text { fill: #1b1f24 } .quiet { fill: #4f5965; font-size: 12px }
  .title { font-size: 16px; font-weight: 600 } .head { font-weight: 600 } .bad { fill: #c0263c; font-weight: 600 }
  .good { fill: #0f6a2a; font-weight: 600 } .box { fill: #f3f5f7; stroke: #8b949e } .life { stroke: #b6bec7; stroke-dasharray: 3 4 }
  .line { stroke: #4f5965; fill: none } .answer { stroke-dasharray: 5 4 } .line.bad { stroke: #c0263c } .line.good { stroke: #0f6a2a }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d } .text { fill: #e6edf3 } .quiet { fill: #a3afbc } .bad { fill: #ff7b86 }
    .good { fill: #6fdd8b } .box { fill: #161b22; stroke: #6e7681 } .life { stroke: #444c56 }
    .line { stroke: #a3afbc } .line.bad { stroke: #ff7b86 } .line.good { stroke: #6fdd8b }
  }`

const [WIDTH, TOP, STEP] = [760, 116, 34]
const ENDS = { left: 130, right: 640 }

function placesOf(processes: number): ReadonlyMap<string, number> {
  const names = [
    BROKER,
    ...Array.from({ length: processes }, (_, at) => `worker ${at + 1}`),
    POSTGRES,
  ]
  const gap = (ENDS.right - ENDS.left) / (names.length - 1)
  return new Map(names.map((name, at) => [name, Math.round(ENDS.left + at * gap)]))
}

function headSvg(name: string, x: number, bottom: number): string {
  return `<path class="life" d="M${x} 92V${bottom}"/><rect class="box" x="${x - 48}" y="66" width="96" height="26" rx="5"/><text class="text head" x="${x}" y="84" text-anchor="middle">${name}</text>`
}

function rowSvg({ from, look, text, to }: Row, y: number, xOf: (place: string) => number): string {
  const [start, end] = [xOf(from), xOf(to)]
  const colour = look === 'bad' || look === 'good' ? look : 'text'
  if (from === to) {
    const mark =
      look === 'bad' ? `M${start - 6} ${y - 6}l12 12m0 -12l-12 12` : `M${start} ${y - 4}v8`
    // A remark at the last lifeline has its room on the left.
    const side = to === POSTGRES ? `x="${start - 14}" text-anchor="end"` : `x="${start + 14}"`
    return `<path class="line ${look}" stroke-width="2" d="${mark}"/><text class="${colour}" ${side} y="${y + 4}">${text}</text>`
  }
  const tip = end > start ? -7 : 7
  return `<path class="line ${look}" d="M${start} ${y}H${end}"/><path class="line ${look === 'answer' ? '' : look}" d="M${end + tip} ${y - 4}L${end} ${y}L${end + tip} ${y + 4}"/><text class="${colour}" x="${(start + end) / 2}" y="${y - 6}" text-anchor="middle">${text}</text>`
}

function draw({ plan, title }: Edge, rows: readonly Told[], processed: number): string {
  const places = placesOf(plan.processes)
  const xOf = (place: string): number => places.get(place) ?? 0
  const bottom = TOP + rows.length * STEP - 8
  const height = bottom + 44
  const lines = rows.map(({ ms, row }, at) => {
    const y = TOP + at * STEP + 8
    const isLater = at > 0 && ms !== rows[at - 1]?.ms
    const time = isLater ? `<text class="quiet" x="24" y="${y + 4}">${ms / 1_000} s</text>` : ''
    return `${time}${rowSvg(row, y, xOf)}`
  })
  const said = rows.map(
    ({ row }) => `${row.from === row.to ? row.to : `${row.from} to ${row.to}`}: ${row.text}`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}. ${said.join('; ')}. Charges committed: ${processed}.">
<style>${STYLE}
</style>
<rect class="card" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="10"/>
<text class="text title" x="24" y="38">${title}</text>
${[...places].map(([name, x]) => headSvg(name, x, bottom)).join('\n')}
${lines.join('\n')}
<text class="good" x="24" y="${height - 18}">Charges committed: ${processed}</text>
</svg>
`
}

/** Plays the schedule on the real core in the simulation, and draws what it wrote down. */
async function pictureOf(edge: Edge): Promise<string> {
  const { processed, trace, violation } = await runPlan(edge.plan, true)
  if (violation !== undefined) throw new Error(`${edge.title}: ${violation}`)
  return draw(edge, tell(trace), processed)
}

/** The sequence diagrams of `docs/edges.md`, by path. */
export const EDGE_PICTURES: Readonly<Record<string, () => Promise<string>>> = Object.fromEntries(
  Object.entries(EDGES).map(([name, edge]) => [`docs/edge-${name}.svg`, () => pictureOf(edge)]),
)
