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

const TITLE = /(?:\b(?:test|it)|\])\s*\)?\(\s*(['"`])(.*?)(?<!\\)\1/gs
const TRAP = /^(?:traps? |acceptance )?[A-Z]\d+(?:(?:, | and )[A-Z]\d+)*: /

/** What an adapter promises under another title, by file and title, or why it cannot promise it. */
const ELSEWHERE: Readonly<Record<string, string | readonly [string, string]>> = {
  'kafka: a dead letter that cannot be published keeps its message, and only errors are reported': [
    'packages/kafka/src/settle.test.ts',
    'a message whose dead letter cannot be published now comes back',
  ],
  'kafka: a drain gives unstarted messages back while the running handler still runs': [
    'packages/kafka/src/handlers.int.test.ts',
    'a drain finishes and commits running records, leaves the others, and leaves the group at once',
  ],
  'kafka: a failed event is retried, and a fatally failed event is dead-lettered with its reason': [
    'packages/kafka/src/consume.int.test.ts',
    'a dead letter has key, value and headers of its record, and the record is passed',
  ],
  'kafka: a batch guard has a linger time': 'There is no such wait: a fetch is a batch already.',
  'kafka: the start fails with the name of a queue that does not exist, the dead-letter queue included':
    [
      'packages/kafka/src/start.int.test.ts',
      'K24: the start fails with the name of %s that does not exist',
    ],
  'kafka: poison messages do not stop other messages from being processed': [
    'test-e2e/behaviour/kafka/partitions.test.ts',
    'poison messages leave the others at least four fifths of the deliveries',
  ],
  'kafka: a queue cannot be its own dead-letter queue': [
    'packages/kafka/src/options.test.ts',
    'a dead-letter topic that is consumed',
  ],
  'kafka: the consumer recovers from a server that is killed and restarted': [
    'packages/kafka/src/recovery.int.test.ts',
    'K13, K20: after %s and a restart every event has run once, without help',
  ],
  'kafka: a drain finishes and settles running handlers, and returns unstarted messages at once': [
    'packages/kafka/src/clients/partition-batches.test.ts',
    'a stop finishes and commits running records, and leaves the others unread',
  ],
  'kafka: the original message is returned, also for stored deliveries, except for other brokers': [
    'packages/kafka/src/delivery.test.ts',
    'a delivery contains everything that Kafka knows of a record, and gives the record back',
  ],
  'kafka: an event that runs for five seconds is redelivered at most three times: no hot loop': [
    'test-e2e/behaviour/brokers/acceptance.test.ts',
    'an event that is in progress elsewhere for 5 s is delivered at most three times',
  ],
  'kafka: messages in hand during a store outage run again as soon as the store is back': [
    'packages/kafka/src/clients/partition-batches.test.ts',
    'one record probes a store that is down, the others wait, and kafkajs continues',
  ],
}

/** Whose options have the name: what two brokers call alike is alike. */
const OPTIONS: Readonly<Record<string, string>> = {
  deadLetter: 'kafka sqs amqp',
  // Of the client itself, where it has such a thing.
  consumer: 'kafka amqp',
  topics: 'kafka',
  groupId: 'kafka',
  fromBeginning: 'kafka',
  partitionsConsumedConcurrently: 'kafka',
  queueUrl: 'sqs',
  visibilityMs: 'sqs',
  longPollMs: 'sqs',
  queue: 'amqp',
  prefetch: 'amqp',
  holdMs: 'amqp',
  retryLevelsMs: 'amqp',
  deadLetterPolicy: 'amqp',
  consumerTimeoutMs: 'amqp',
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

/** What the classes of two roles can do in every adapter. */
const DUTIES: Readonly<Record<string, readonly string[]>> = {
  'dispatch.ts': ['inFlight', 'clear', 'ended'],
  'receive.ts': ['lastProgressAt', 'outage', 'start', 'stop', 'known'],
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
  const brokers = ['kafka', 'sqs', 'amqp', 'redis-streams'].filter((name) =>
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
      const duties = [...(DUTIES[file] ?? [])]
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

  /** Titles of its tests, without the trap that they show. */
  const titlesOf = (name: string): Set<string> => {
    const texts = filesIn(source(name))
      .filter(isTest)
      .map((file) => readFileSync(join(source(name), file), 'utf8'))
    const found = texts.flatMap((text) =>
      [...text.matchAll(TITLE)].map(([, , title = '']) => title),
    )
    return new Set(found.map((title) => title.replace(TRAP, '')))
  }
  const titles = new Map(brokers.map((name) => [name, titlesOf(name)]))
  const lacking = (title: string): readonly string[] =>
    brokers.filter((name) => !titles.get(name)?.has(title))
  const promises = [...new Set([...titles.values()].flatMap((each) => [...each]))].filter(
    (title) => lacking(title).length < brokers.length - 1,
  )

  it('a promise that two of them make has one title, and the third one makes it too', () => {
    const missing = promises.flatMap((title) => lacking(title).map((name) => `${name}: ${title}`))
    expect(missing.toSorted()).toEqual(Object.keys(ELSEWHERE).toSorted())
  })

  it.each(Object.entries(ELSEWHERE).filter(([, where]) => typeof where !== 'string'))(
    '%s: it is shown elsewhere',
    (_promise, [file = '', title = '']) => {
      expect(readFileSync(join(root, file), 'utf8')).toContain(title)
    },
  )

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
