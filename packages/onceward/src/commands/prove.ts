import { once } from 'node:events'
import { resolve } from 'node:path'
import type { GivenServers, ProveBroker, ProveOptions, ProveResult } from '@onceward/testing/prove'
import type { Command } from 'commander'
import { prepareDatabase } from '../data/proof-database.ts'
import { proofServers, proveBroker } from '../data/proof-servers.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { createOutput } from '../output.ts'
import { proofText } from '../render/proof.ts'
import { visible } from '../render/visible.ts'
import { type CommonOptions, command, type End, wholeNumber } from './command.ts'

interface ProveFlags extends CommonOptions {
  readonly kills: string
  readonly events: string
  readonly seed?: string
  readonly servers: string
  readonly broker?: string
  readonly redis?: string
  readonly allowUsedDatabase?: boolean
}

export function proveCommand(end: End): Command {
  const made = command({
    name: 'prove',
    summary: 'Kill your consumer at points of its work, and count lost and doubled events',
    details: [
      'The file exports start(env), which starts your consumer and resolves with its Consumption; event(n), the body of the',
      'n-th event; and count(env), which resolves with the number of effects of each event. Workers run it, events and',
      'copies are sent, and workers are killed and frozen. The exit code is 1 when an event is lost or doubled.',
      'Embedded servers are PostgreSQL, Redis and the broker; with `--servers env` they are yours. See docs/prove.md.',
    ].join('\n'),
    rights:
      'with --servers env: the owner of the tables, and at the broker to create and delete queues.',
    examples: [
      'prove consumer.ts',
      'prove consumer.ts --broker kafka --events 200 --kills 20',
      'prove consumer.ts --servers env --broker amqp://localhost --seed 7',
    ],
  })
  return made
    .argument('<file>', 'module of JavaScript or TypeScript with your consumer')
    .option('--kills <number>', 'how often a worker is killed or frozen', '50')
    .option('--events <number>', 'how many events are sent, before copies', '500')
    .option('--seed <number>', 'repeats the plan of a run (default: a new one)')
    .option('--servers <which>', '`embedded`, or `env`: DATABASE_URL and your broker', 'embedded')
    .option(
      '--broker <name>',
      'sqs, kafka, amqp, redis-streams or nats; with `--servers env` also its address (default: sqs)',
    )
    .option('--redis <url>', 'with `--servers env`: a Redis for leases (default: REDIS_URL)')
    .option('--allow-used-database', 'with `--servers env`: also where others have events')
    .action(async (file: string) => end(await run(file, made.opts<ProveFlags>())))
}

async function run(file: string, flags: ProveFlags): Promise<ExitCode> {
  const options = optionsOf(file, flags)
  const { isExact, ProofError, prove } = await loadProve()
  const output = createOutput(flags.json === true)
  const over = new AbortController()
  const asked = ['SIGINT', 'SIGTERM'].map((name) => once(process, name, { signal: over.signal }))
  const ending = new AbortController()
  void Promise.race(asked).then(
    () => ending.abort(new Failure('Interrupted: everything is ended and removed.')),
    () => undefined,
  )
  let result: ProveResult
  try {
    const { signal } = ending
    result = await prove({ ...options, signal, onProgress: (text) => output.progress(text) })
  } catch (error) {
    throw error instanceof ProofError ? usage(error.message) : error
  } finally {
    over.abort()
    output.progress('')
  }
  output.answer(result, () => proofText(result, repeatOf(file, options, flags)))
  return isExact(result) ? EXIT.ok : EXIT.no
}

type Options = Omit<ProveOptions, 'signal' | 'onProgress'>

/** A process and its memory for each worker is dear, and rounds of more kills than messages are none. */
const MOST_EVENTS = 100_000
const MOST_SEED = 2 ** 31

function optionsOf(file: string, flags: ProveFlags): Options {
  const { allowUsedDatabase = false, schema, seed, servers: which } = flags
  const events = wholeNumber('--events', flags.events, 1)
  const kills = wholeNumber('--kills', flags.kills)
  if (events > MOST_EVENTS) throw usage(`Expected --events to be at most ${MOST_EVENTS}.`)
  if (kills > events)
    throw usage('Expected --kills to be at most --events: each kill needs an event.')
  if (which !== 'embedded' && which !== 'env') {
    throw usage('Expected --servers to be `embedded` or `env`.')
  }
  const drawn = seed === undefined ? Date.now() % 1_000_000 : wholeNumber('--seed', seed)
  if (drawn > MOST_SEED) throw usage(`Expected --seed to be at most ${MOST_SEED}.`)
  const broker: ProveBroker = proveBroker(flags.broker)
  const servers: GivenServers | undefined = which === 'env' ? proofServers(flags) : undefined
  const isOnlyForEnv = flags.redis !== undefined || allowUsedDatabase || flags.url !== undefined
  if (servers === undefined && (isOnlyForEnv || flags.broker?.includes('://') === true)) {
    throw usage(
      '--url, --redis, --allow-used-database and addresses of brokers are for `--servers env`.',
    )
  }
  return {
    ...{ file: resolve(file), events, kills, seed: drawn, broker, servers },
    prepare: (url) => prepareDatabase({ url, schema, allowUsed: allowUsedDatabase }),
  }
}

function repeatOf(file: string, { seed }: Options, flags: ProveFlags): string {
  const { broker, events, kills, servers } = flags
  const name = broker === undefined ? '' : ` --broker ${broker.includes('://') ? '…' : broker}`
  const plan = `--seed ${seed} --events ${events} --kills ${kills}`
  return `npx onceward prove ${visible(file)} ${plan}${servers === 'env' ? ' --servers env' : ''}${name}`
}

/** The package is optional: only who proves needs its servers. */
async function loadProve(): Promise<typeof import('@onceward/testing/prove')> {
  return import('@onceward/testing/prove').catch((error: unknown) => {
    if (Reflect.get(Object(error), 'code') !== 'ERR_MODULE_NOT_FOUND') throw error
    throw usage(
      'prove needs the package @onceward/testing, which brings the servers. Run `npm install --save-dev @onceward/testing`.',
    )
  })
}
