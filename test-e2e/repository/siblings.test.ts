import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const source = (name: string): string => join(root, 'packages', name, 'src')
const isTest = (file: string): boolean => /\.test(-d)?\.ts$/.test(file)

function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
}

/** Whose options have the name: what two brokers call alike is alike. */
const OPTIONS: Readonly<Record<string, string>> = {
  deadLetter: 'kafka sqs amqp redis-streams nats',
  // Of the client itself, where it has such a thing; on NATS the name of the one at the server.
  consumer: 'kafka amqp nats',
  topics: 'kafka',
  groupId: 'kafka',
  fromBeginning: 'kafka',
  partitionsConsumedConcurrently: 'kafka',
  queueUrl: 'sqs',
  visibilityMs: 'sqs',
  longPollMs: 'sqs',
  queue: 'amqp',
  prefetch: 'amqp',
  holdMs: 'amqp redis-streams',
  retryLevelsMs: 'amqp',
  deadLetterPolicy: 'amqp',
  consumerTimeoutMs: 'amqp',
  stream: 'redis-streams nats',
  group: 'redis-streams',
  consumerName: 'redis-streams',
  claimIdleMs: 'redis-streams',
  bodyField: 'redis-streams',
  orderingField: 'redis-streams',
  orderingHeader: 'nats',
  orderingSubject: 'nats',
  domain: 'nats',
  identity: 'kafka',
  keepEntries: 'redis-streams',
}

/**
 * The files of an adapter and what each of them must export, so that the same name has the same role in all of them.
 *
 * In this order: a file imports only files that stand before it.
 */
const ROLES: Readonly<Record<string, readonly string[]>> = {
  'client.ts': [],
  'errors.ts': ['BACKOFF', 'BrokerError', 'BrokerErrorKind', 'classifyError'],
  'options.ts': ['DEFAULTS', 'Settings', 'resolveSettings'],
  'delivery.ts': ['toDelivery'],
  'dead-letter.ts': ['createPublisher', 'deadLetterMessage', 'placeOf'],
  'doctor.ts': ['examine'],
  'settle.ts': ['SettleAnswer', 'SettleContext', 'createSettleContext', 'settle'],
  'dispatch.ts': ['Dispatcher', 'DispatcherOptions'],
  'receive.ts': ['Receiver', 'ReceiverOptions'],
  'consume.ts': [],
  'wrap.ts': [],
  'operator.ts': ['operate'],
  'index.ts': ['DEFAULTS'],
}

/** What the classes of two roles can do. An adapter whose broker is asked for messages has the loop of the kit. */
const DUTIES: Readonly<Record<'asks' | 'listens', Readonly<Record<string, readonly string[]>>>> = {
  asks: { 'receive.ts': ['fill', 'fillOne', 'failed'] },
  listens: {
    'dispatch.ts': ['inFlight', 'clear', 'ended'],
    'receive.ts': ['lastProgressAt', 'outage', 'start', 'stop', 'known'],
  },
}

const EXPORT = /^export (?:async )?(?:class|const|function|interface|type) (\w+)/gm
const LISTED = /^export (?:type )?\{([^}]*)\}/gm
const IMPORT = /^(?:import|export) .*?from '\.\/([^']+)'/gms

/** Names that a file exports. */
function exportsOf(text: string): readonly string[] {
  const listed = [...text.matchAll(LISTED)].flatMap(([, names = '']) =>
    names.split(',').map((name) => name.replace(/^\s*(?:type )?/, '').trim()),
  )
  const declared = [...text.matchAll(EXPORT)].map(([, name = '']) => name)
  return [...declared, ...listed].filter((name) => name !== '')
}

describe('broker packages are siblings', () => {
  const brokers = ['kafka', 'sqs', 'amqp', 'redis-streams', 'nats'].filter((name) =>
    existsSync(source(name)),
  )
  // Files for one client library each, and for tests alone, are no part of what siblings share.
  const namesOf = (name: string): string[] =>
    filesIn(source(name)).filter((file) => !isTest(file) && !/^(clients|fixtures)\//.test(file))
  const textOf = (name: string, file: string): string =>
    readFileSync(join(source(name), file), 'utf8')

  it.each(brokers)('%s has every file that a broker has', (name) => {
    expect(namesOf(name)).toEqual(expect.arrayContaining(Object.keys(ROLES)))
  })

  it.each(brokers)('%s has at most one file with a noun of its own', (name) => {
    const others = brokers.filter((other) => other !== name).map(namesOf)
    const own = namesOf(name).filter((file) => others.some((files) => !files.includes(file)))
    expect(own.length, own.join(', ')).toBeLessThanOrEqual(1)
  })

  it.each(brokers.flatMap((name) => Object.keys(ROLES).map((file) => [name, file] as const)))(
    '%s/%s has its role: its exports and the duties of its class',
    (name, file) => {
      const text = textOf(name, file)
      expect(exportsOf(text)).toEqual(expect.arrayContaining([...(ROLES[file] ?? [])]))
      const members = [...text.matchAll(/^ {2}(?:async |get |readonly )*(\w+)(?=[(:])/gm)]
      const way = textOf(name, 'dispatch.ts').includes('new PullLoop') ? 'asks' : 'listens'
      const duties = [...(DUTIES[way][file] ?? [])]
      expect(members.map(([, member]) => member)).toEqual(expect.arrayContaining(duties))
    },
  )

  it('a name that two of them export has one file in all of them', () => {
    const homes = new Map<string, Set<string>>()
    for (const name of brokers) {
      for (const file of Object.keys(ROLES).filter((each) => each !== 'index.ts')) {
        for (const exported of exportsOf(textOf(name, file))) {
          homes.set(exported, (homes.get(exported) ?? new Set()).add(file))
        }
      }
    }
    const scattered = [...homes].filter(([, files]) => files.size > 1)
    expect(scattered.map(([exported, files]) => [exported, ...files])).toEqual([])
  })

  it.each(brokers)('%s imports one way: each role only those before it', (name) => {
    const order = Object.keys(ROLES)
    const upward = order.flatMap((file, position) => {
      const imported = [...textOf(name, file).matchAll(IMPORT)].map(([, path = '']) => path)
      return imported.filter((path) => order.indexOf(path) > position).map((path) => [file, path])
    })
    expect(upward).toEqual([])
  })

  /** Names of the options of its own that a user can give. */
  const optionsOf = (name: string): Set<string> => {
    const text = readFileSync(join(source(name), 'options.ts'), 'utf8')
    const blocks = [...text.matchAll(/^export interface \w+Options\b[^{]*\{\n(.*?)^\}/gms)]
    const names = blocks.flatMap(([, block = '']) => [
      ...block.matchAll(/^ {2}readonly (\w+)\??:/gm),
    ])
    return new Set(names.map(([, option = '']) => option))
  }

  it('options of two of them mean the same and are told by name, all others are of one broker alone', () => {
    const options = new Map(brokers.map((name) => [name, optionsOf(name)]))
    const all = new Set([...options.values()].flatMap((each) => [...each]))
    const havingEach = [...all].map((option) => [
      option,
      brokers.filter((name) => options.get(name)?.has(option)).join(' '),
    ])
    expect(Object.fromEntries(havingEach)).toEqual(OPTIONS)
  })
})
