import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Command } from 'commander'
import { type Access, LOOPBACK } from '../console/access.ts'
import { createApi } from '../console/api.ts'
import { createConsole } from '../console/server.ts'
import { parseBroker } from '../data/broker-address.ts'
import { withSender } from '../data/queue-sender.ts'
import { loadSeal, SEAL_OPTION } from '../data/seal.ts'
import { demandTables } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import {
  collected,
  command,
  type End,
  notEmpty,
  type Work,
  wholeNumber,
  withDatabase,
} from './command.ts'

interface ConsoleFlags {
  readonly port: string
  readonly host: string
  readonly allowedHost?: readonly string[]
  readonly allowChanges?: boolean
  readonly token?: string
  readonly by?: string
  readonly broker?: readonly string[]
  readonly redis?: string
  readonly redisNamespace?: string
  readonly seal?: string
}

const SHORTEST_TOKEN = 16
const LAST_PORT = 65_535

export function consoleCommand(end: End): Command {
  const made = command({
    name: 'console',
    summary: 'Serve a web page: rates, what waits, dead letters, stories, findings',
    details: [
      'Read-only and on 127.0.0.1 by default. A token is needed for changes, and beyond loopback: it is made',
      'new at each start, unless ONCEWARD_CONSOLE_TOKEN gives one. There is no TLS: put a proxy before it, or use a tunnel',
      'such as `ssh -L 4180:127.0.0.1:4180 host`.',
    ].join('\n'),
    rights:
      'onceward_operator, also for replay, requeue and discard. At the brokers: to write to the queues.',
    examples: [
      'console',
      'console --allow-changes --by alice',
      "console --allow-changes --broker 'amqp://localhost/shop'",
      'console --host 0.0.0.0 --allowed-host console.internal',
    ],
  })
  return made
    .option('--port <port>', 'port; 0: any free one', '4180')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--allowed-host <name>',
      'name under which the page is asked for, such as that of a proxy; may be repeated',
      (value: string, before: readonly string[] = []) => [...before, value.toLowerCase()],
    )
    .option('--allow-changes', 'allow replay and discard, and requeue with --broker')
    .option('--token <text>', 'token that the page asks for; better: ONCEWARD_CONSOLE_TOKEN')
    .option(
      '--by <name>',
      'name for the table audit, unless the page gives one (default: the login)',
    )
    .option(
      '--broker <address>',
      'also send dead letters back to the queues of this broker: kafka://host:9092, amqp://host/vhost or the URL of an SQS queue; may be repeated',
      collected,
    )
    .option('--redis <url>', 'also ask this Redis in the story of an event')
    .option('--redis-namespace <name>', '`namespace` of redisLeases')
    .option('--seal <file>', SEAL_OPTION)
    .action(async () => end(await withDatabase<ConsoleFlags>(made, run)))
}

const PARENT_MS = 500

/** npx that is killed tells its command nothing, and the port would stay taken. Never without npx. */
async function npxGone(ended: AbortSignal): Promise<void> {
  const { env, ppid } = process
  const isNpx = env['npm_command'] === 'exec'
  while (!isNpx || process.ppid === ppid) await setTimeout(PARENT_MS, undefined, { signal: ended })
}

async function run({ database, output, options }: Work<ConsoleFlags>): Promise<ExitCode> {
  const port = wholeNumber('--port', options.port)
  if (port > LAST_PORT) throw usage(`Expected --port to be at most ${LAST_PORT}.`)
  const { by, host, redis, redisNamespace } = options
  const named = { '--host': host, '--by': by, '--redis-namespace': redisNamespace }
  for (const [option, text] of Object.entries(named)) notEmpty(option, text)
  for (const name of options.allowedHost ?? []) notEmpty('--allowed-host', name)
  const access = accessOf(options)
  const seal = await loadSeal(notEmpty('--seal', options.seal))
  const brokers = (options.broker ?? []).map(parseBroker)
  if (brokers.length > 0 && !access.allowsChanges) {
    throw usage('--broker is for sending dead letters back: give --allow-changes too.')
  }
  // A missing package or a wrong address is reported now and not at the first requeue.
  await withSender(brokers, async () => undefined)
  await demandTables(database)
  const { allowsChanges, token } = access
  const ending = new AbortController()
  const { signal } = ending
  const { server, settled } = createConsole(
    createApi({
      database,
      allowsChanges,
      brokers,
      by,
      redis,
      redisNamespace,
      seal,
      ending: signal,
    }),
    access,
  )
  server.listen(port, options.host)
  await once(server, 'listening').catch((error: Error) => {
    throw new Failure(`The console cannot listen on ${options.host}:${port}: ${error.message}.`)
  })
  const url = urlOf(server.address() as AddressInfo, token)
  output.answer({ url, allowsChanges, readOnly: !allowsChanges }, () =>
    [
      `The console is at ${url}`,
      `${allowsChanges ? 'Changes are allowed, and written in the table audit' : 'Read-only (--allow-changes allows replay, requeue and discard)'}. Ctrl-C ends it.`,
    ].join('\n'),
  )
  await Promise.race([
    once(process, 'SIGINT'),
    once(process, 'SIGTERM'),
    npxGone(signal).catch(() => undefined),
  ])
  ending.abort()
  server.close()
  // A message may be in its queue and not be confirmed yet. A second Ctrl-C waits for nothing.
  await settled()
  server.closeAllConnections()
  return EXIT.ok
}

/** The token stands behind the `#`, which no browser sends and no proxy logs. */
function urlOf({ address, family, port }: AddressInfo, token: string | undefined): string {
  const isAny = address === '0.0.0.0' || address === '::'
  const host = isAny ? 'localhost' : family === 'IPv6' ? `[${address}]` : address
  return `http://${host}:${port}/${token === undefined ? '' : `#token=${encodeURIComponent(token)}`}`
}

function accessOf(flags: ConsoleFlags): Access {
  const isLoopback = /^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/.test(flags.host)
  const allowsChanges = flags.allowChanges === true
  const given = flags.token ?? (process.env['ONCEWARD_CONSOLE_TOKEN'] || undefined)
  if (given !== undefined && given.length < SHORTEST_TOKEN) {
    throw usage(`Expected a token of at least ${SHORTEST_TOKEN} characters.`)
  }
  const isNeeded = allowsChanges || !isLoopback
  return {
    token: given ?? (isNeeded ? randomBytes(24).toString('base64url') : undefined),
    hosts: new Set([...LOOPBACK, flags.host.toLowerCase(), ...(flags.allowedHost ?? [])]),
    acceptsAddresses: !isLoopback,
    allowsChanges,
  }
}
