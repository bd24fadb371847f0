import { once } from 'node:events'
import { postgres, ServerMissingError } from '@onceward/testing/servers'
import { UsageError } from '../support/command-line.ts'
import { EXAMPLES, startBeside } from './servers.ts'

const USAGE = `npm run servers -- [${Object.keys(EXAMPLES).join('|')}]

Starts the servers of an example, in place of its compose file, and prints the variables that name them.`

/** Until Ctrl-C, or what else ends a process. */
async function untilAsked(): Promise<void> {
  await Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => once(process, name)))
}

async function serve(example: string): Promise<void> {
  if (!Object.hasOwn(EXAMPLES, example)) throw new UsageError(USAGE)
  const asked = untilAsked()
  console.error('starting …')
  await using database = await postgres()
  await using servers = await startBeside(await database.createDatabase(), example)
  for (const [name, value] of Object.entries(servers.env)) console.log(`export ${name}='${value}'`)
  console.error(`
Paste these lines into another terminal, and follow examples/${example}/README.md there, without Docker.
Ctrl-C ends the servers and removes their data.`)
  await asked
}

try {
  const [example = 'sqs-express-orders'] = process.argv.slice(2)
  await serve(example)
} catch (error) {
  const isSaid = error instanceof UsageError || error instanceof ServerMissingError
  console.error(isSaid ? error.message : error)
  process.exitCode = isSaid ? 2 : 1
}
