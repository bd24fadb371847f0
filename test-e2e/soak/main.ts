import { UsageError } from '../support/command-line.ts'
import { parseOptions } from './options.ts'
import { findingsOf, growthOf, tableOf } from './report.ts'
import { soak } from './run.ts'

try {
  const options = parseOptions(process.argv.slice(2))
  const report = await soak(options, (cycle, posts) => {
    const heaps = posts.map(({ name, samples }) => {
      const mebibytes = (samples.at(-1)?.heapBytes ?? 0) / 2 ** 20
      return `${name} ${mebibytes.toFixed(1)} MiB`
    })
    console.error(`cycle ${cycle}, seed ${options.seed + cycle}: ${heaps.join(', ')}`)
  })
  const findings = report.results.flatMap((result) => [...findingsOf(result), ...growthOf(result)])
  console.error([tableOf(report), ...findings].join('\n'))
  const { cycles, blows, durationMs } = report
  const events = report.results.reduce((sum, result) => sum + result.events, 0)
  const totals = { cycles, blows, events, findings: findings.length }
  console.log(JSON.stringify({ ...totals, durationMs: Math.round(durationMs) }))
  process.exitCode = findings.length === 0 ? 0 : 1
} catch (error) {
  console.error(error instanceof UsageError ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
