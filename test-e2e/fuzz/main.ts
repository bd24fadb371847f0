import { integer, parseValues, UsageError } from '../support/command-line.ts'
import { runCampaign } from './campaign.ts'
import { FORMS } from './forms.ts'
import { mustEnd } from './must-end.ts'

const USAGE = `usage: npm run fuzz -- ${Object.keys(FORMS).join('|')} [--minutes 60] [--seed N]
       npm run fuzz -- NAME --replay SEED      one case`

const OPTIONS = {
  minutes: { type: 'string', default: '60' },
  seed: { type: 'string', default: '1' },
  replay: { type: 'string' },
} as const

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(error.message)
  process.exitCode = 2
}

async function main([name = '', ...args]: readonly string[]): Promise<number> {
  const load = Object.hasOwn(FORMS, name) ? FORMS[name] : undefined
  if (load === undefined) throw new UsageError(USAGE)
  const values = parseValues(args, OPTIONS, USAGE)
  const minutes = integer('--minutes', values.minutes, [1, 10_000])
  const seed = integer('--seed', values.replay ?? values.seed, [0, 2 ** 31])
  const fuzz = await (await load()).open()
  try {
    const cases = values.replay === undefined ? undefined : { cases: 1 }
    const onViolation = (of: number, violation: string): void =>
      console.log(`${violation}\nnpm run fuzz -- ${name} --replay ${of}\n`)
    const found = await runCampaign({
      ...{ fuzz, seed, forMs: minutes * 60_000, onViolation },
      ...cases,
    })
    const tally = Object.entries(fuzz.tally()).map(([what, times]) => `${what} ${times}`)
    console.log(tally.join(', '))
    console.log(`${found.cases} cases, ${found.failures.length} broken promises`)
    return found.failures.length === 0 ? 0 : 1
  } finally {
    await fuzz.close()
    mustEnd()
    // Once nothing is left, Node's own cleanup may wait in a busy loop for a request of a pipe that was unref'd.
    process.once('exit', (code) => process.exit(code))
  }
}
