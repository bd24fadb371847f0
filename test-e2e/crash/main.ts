import { UsageError } from '../support/command-line.ts'
import { parseOptions } from './options.ts'
import { failureOf, isFine, lineOf, totalsOf } from './report.ts'
import { run } from './run.ts'

try {
  const options = parseOptions(process.argv.slice(2))
  const results = await run(options, (result) => {
    console.error(isFine(result) ? lineOf(result) : `${lineOf(result)}\n${failureOf(result)}`)
  })
  console.log(JSON.stringify(totalsOf(options.seed, results)))
  process.exitCode = results.every(isFine) ? 0 : 1
} catch (error) {
  console.error(error instanceof UsageError ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
