import { once } from 'node:events'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf } from '@onceward/core/adapter'
import { type RelayOptions, startRelay } from '@onceward/postgres/outbox'
import type { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { visible } from '../render/visible.ts'
import { command, type End, notEmpty, type Work, withDatabase } from './command.ts'

interface RelayFlags {
  readonly config: string
}

export function relayCommand(end: End): Command {
  const made = command({
    name: 'relay',
    summary: 'Publish the messages of the outbox, until SIGTERM or Ctrl-C',
    details: [
      'The file is a module of JavaScript. Its default export has the options of startRelay but the database, at least',
      '`destinations`; or it is a function, async or not, that returns them. At SIGTERM the relay finishes the calls in',
      'hand and gives its leases back. Any number of relays share the work.',
    ].join('\n'),
    rights: 'onceward_relay.',
    examples: ['relay --config relay.config.js'],
  })
  return made
    .requiredOption('--config <file>', 'module whose default export has `destinations`')
    .action(async () => end(await withDatabase<RelayFlags>(made, run)))
}

async function run({ database, options, output }: Work<RelayFlags>): Promise<ExitCode> {
  const { config, url } = options
  const given = await optionsOf(notEmpty('--config', config) ?? config)
  const connectionString = url ?? process.env['DATABASE_URL']
  const { schema } = database
  const relay = await startRelay({ ...given, connectionString, schema })
  const destinations = Object.keys(given.destinations)
  output.answer(
    { destinations },
    () => `The relay publishes to ${visible(destinations.join(', '))}.`,
  )
  const over = new AbortController()
  const asked = ['SIGINT', 'SIGTERM'].map((name) => once(process, name, { signal: over.signal }))
  await Promise.race([...asked, relay.stopped])
  // A second signal ends the process at once.
  over.abort()
  await Promise.allSettled([...asked, relay.drain()])
  return EXIT.ok
}

/** Those that the command gives itself. */
const OWN = ['connectionString', 'pool', 'schema', 'signal'] as const

/** @throws {@link Failure} that names the file. */
async function optionsOf(config: string): Promise<Pick<RelayOptions, 'destinations'>> {
  const file = resolve(config)
  const refused = (problem: string): Error => usage(`${visible(file)} ${problem}`)
  let given: unknown
  try {
    const module: object = await import(pathToFileURL(file).href)
    const exported: unknown = Reflect.get(module, 'default')
    given = typeof exported === 'function' ? await Reflect.apply(exported, undefined, []) : exported
  } catch (error) {
    throw refused(`cannot be loaded: ${messageOf(error)}`)
  }
  if (typeof given !== 'object' || given === null || !('destinations' in given)) {
    throw refused(
      'has no destinations: write `export default { destinations: { name: kafkaDestination(…) } }`.',
    )
  }
  const own = OWN.find((name) => name in given)
  if (own !== undefined) {
    throw refused(`gives \`${own}\`, which the command line gives: leave it out.`)
  }
  return given as Pick<RelayOptions, 'destinations'>
}
