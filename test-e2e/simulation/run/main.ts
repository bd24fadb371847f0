import { parseArgs } from 'node:util'
import { mutate } from '../faults/mutate.ts'
import { runCampaign, type Tally } from './campaign.ts'
import type { Played } from './run.ts'

const USAGE = `usage: npm run simulate -- [--schedules N] [--seed N] [--threads N] [--mutant NAME] [--json]
       npm run simulate -- --replay SEED [--faults 0,2] [--mutant NAME]   one schedule, with its trace
       npm run simulate -- --callers [--schedules N] [--replay SEED] …            clients of a route, in place of a broker
       npm run simulate -- --explore [--quick] [--json]                   every interleaving of the small worlds`

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '50000' },
    seed: { type: 'string', default: '1' },
    threads: { type: 'string', default: '2' },
    mutant: { type: 'string' },
    json: { type: 'boolean', default: false },
    replay: { type: 'string' },
    faults: { type: 'string' },
    callers: { type: 'boolean', default: false },
    explore: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.mutant !== undefined) mutate(values.mutant)
// Only now: what is mutated must not be loaded before.
const { drawPlan } = await import('../faults/plan.ts')
const { runPlan } = await import('./run.ts')
const { shrink, withFaults } = await import('./shrink.ts')
const { exploreAll } = await import('./explore-all.ts')
const { playerOf } = await import('./player.ts')

if (values.help) console.log(USAGE)
else if (values.explore) process.exitCode = await exploreAll(values)
else if (values.replay !== undefined) await replay(Number(values.replay), values.faults)
else await campaign()

async function replay(seed: number, faults: string | undefined): Promise<void> {
  if (values.callers) return show(await playerOf(true)(seed, true))
  const drawn = drawPlan(seed)
  const kept = faults?.split(',').filter(Boolean).map(Number)
  const plan = kept === undefined ? drawn : withFaults(drawn, kept)
  const verdict = await runPlan(plan, true)
  console.log(JSON.stringify(plan, undefined, 2))
  show(verdict)
}

function show({ trace, violation }: Pick<Played, 'trace' | 'violation'>): void {
  console.log(trace.join('\n'))
  console.log(violation ?? 'every promise was kept')
  process.exitCode = violation === undefined ? 0 : 1
}

async function campaign(): Promise<void> {
  const startedAt = performance.now()
  const { json, mutant } = values
  const [schedules, seed, threads] = [values.schedules, values.seed, values.threads].map(Number)
  const tally = await runCampaign({
    schedules: schedules ?? 0,
    seed: seed ?? 1,
    threads: threads ?? 2,
    mutant,
    isOfCallers: values.callers,
    onProgress: (done) => {
      if (!json && process.stderr.isTTY) process.stderr.write(`\r${done} schedules`)
    },
  })
  const seconds = (performance.now() - startedAt) / 1_000
  const result = { ...tally, seconds, perSecond: tally.schedules / seconds }
  if (json) {
    console.log(JSON.stringify(result))
    process.exitCode = tally.failures.length === 0 ? 0 : 1
    return
  }
  console.log(describe(result))
  const [first] = [...tally.failures].sort((a, b) => a.seed - b.seed)
  if (first === undefined) return
  process.exitCode = 1
  await explain(first)
}

function describe(result: Tally & { readonly seconds: number }): string {
  const { dead, failures, faults, processed, schedules, seconds, steps, virtualMs } = result
  const struck = Object.entries(faults).sort(([, one], [, other]) => other - one)
  return [
    `${schedules} schedules in ${seconds.toFixed(1)} s (${Math.round(schedules / seconds)} a second)`,
    `${steps} steps, ${(virtualMs / 3_600_000).toFixed(0)} hours of virtual time`,
    `${processed} events processed, ${dead} dead`,
    `faults: ${struck.map(([kind, times]) => `${kind} ${times}`).join(', ')}`,
    `live heap: ${megabytes(result.heapAfterFirst)} after the first schedules, ${megabytes(result.heapAtEnd)} after the last`,
    `${failures.length} broken promises`,
  ].join('\n')
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MB`
}

async function explain({ seed, violation }: { seed: number; violation: string }): Promise<void> {
  const mutated = values.mutant === undefined ? '' : ` --mutant ${values.mutant}`
  console.log(`\nseed ${seed}: ${violation}`)
  if (values.callers) {
    console.log(`npm run simulate -- --callers --replay ${seed}${mutated}`)
    return
  }
  const plan = drawPlan(seed)
  const kept = await shrink(plan)
  console.log(`${kept.length} of ${plan.faults.length} faults are needed:`)
  for (const index of kept) console.log(`  ${index}: ${JSON.stringify(plan.faults[index])}`)
  console.log(`npm run simulate -- --replay ${seed} --faults '${kept.join(',')}'${mutated}`)
}
