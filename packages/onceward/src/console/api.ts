import type { Seal } from '@onceward/core'
import {
  deadLetters,
  type OperatorReport,
  pauseConsumer,
  removeConsumer,
  resumeConsumer,
} from '@onceward/postgres'
import { deadMessageChanges } from '@onceward/postgres/operator'
import type { NamedBroker } from '../data/broker-address.ts'
import { type ChangeOutcome, changeEach } from '../data/change-dead-letters.ts'
import { troublesOf } from '../data/consumer-trouble.ts'
import type { Database } from '../data/database.ts'
import {
  counts,
  type DeadLetterFilter,
  deadLetterOf,
  errorGroups,
  isId,
  selected,
  summaries,
} from '../data/dead-letters.ts'
import { databaseFindings } from '../data/doctor.ts'
import { eventFactsOf } from '../data/event.ts'
import { deadMessages, messagesOf, readOutbox, waitingKeys } from '../data/outbox.ts'
import { withSender } from '../data/queue-sender.ts'
import { readable } from '../data/readable.ts'
import { openRedis } from '../data/redis.ts'
import {
  consumerNames,
  countWaiting,
  failedMinutes,
  readStatus,
  recentMinutes,
} from '../data/status.ts'
import { readTablesOf } from '../data/tables.ts'
import { timelineOf } from '../data/timeline.ts'
import { readTroubled } from '../data/troubled.ts'
import { Failure, toFailure, toShownFailure, usage } from '../failure.ts'
import { bodyText } from '../render/body.ts'
import { MESSAGE_STATES } from '../render/outbox.ts'

/** What the page asks for. */
export interface Question {
  /** Path below `/api/`. */
  readonly name: string
  readonly query: URLSearchParams
  /** Of a POST, as JSON. */
  readonly body?: unknown
}

export interface Api {
  answer(question: Question): Promise<unknown>
}

/** Ends a request with this status. */
export class Refused extends Error {
  readonly status: 400 | 404 | 413

  constructor(status: Refused['status'], message: string) {
    super(message)
    this.status = status
  }
}

export interface ApiOptions {
  readonly database: Database
  readonly allowsChanges: boolean
  /** Operator's name for the table `audit`, unless the page gives one. */
  readonly by: string | undefined
  /** Where dead letters may be sent back to their queues. */
  readonly brokers: readonly NamedBroker[]
  readonly redis: string | undefined
  readonly redisNamespace: string | undefined
  /** Opens what is sealed. Undefined: it is not shown. */
  readonly seal?: Seal | undefined
  /** Aborted when the console ends: no change begins any more, and running ones end with their current dead letter. */
  readonly ending: AbortSignal
}

const PAGE = 100
/** On the first page. */
const MOST_ERRORS = 8
const BODY_BYTES = 65_536
/** Of one request; the page sends several for more. */
const MOST_IDS = 100
/** A request that has worked for this long answers what it has done, and the page asks for the rest. */
const LONGEST_WORK_MS = 5_000

type Verb = 'replay' | 'requeue' | 'discard'
type ConsumerVerb = 'pause' | 'resume' | 'remove'
type MessageVerb = 'replay-messages' | 'discard-messages'
const VERBS: readonly string[] = [
  ...(['replay', 'requeue', 'discard'] satisfies readonly Verb[]),
  ...(['replay-messages', 'discard-messages'] satisfies readonly MessageVerb[]),
  ...(['pause', 'resume', 'remove'] satisfies readonly ConsumerVerb[]),
]

type Answer = (question: Question) => Promise<unknown>

/** The questions of the page, all but {@link VERBS} of which only read. */
export function createApi(options: ApiOptions): Api {
  const { database } = options
  const answers: Readonly<Record<string, Answer>> = {
    session: async () => ({
      ...{ place: database.place, schema: database.schema },
      ...{ allowsChanges: options.allowsChanges, by: options.by ?? '' },
      brokers: options.brokers.map(({ title }) => title),
      redis: options.redis !== undefined,
    }),
    marks: () => marks(database),
    consumers: () =>
      readTablesOf(database, async (query) => ({
        consumers: await consumerNames(query, database),
      })),
    status: () => overview(options),
    waiting: ({ query }) => waiting(database, query.get('consumer') || undefined),
    letters: ({ query }) => letters(database, filterOf(query)),
    selected: ({ query }) =>
      readTablesOf(database, (ask) => selected(ask, database, filterOf(query))),
    letter: ({ query }) => letter(options, query.get('id') ?? ''),
    outbox: ({ query }) => outbox(database, query.get('destination') || undefined),
    'selected-messages': ({ query }) => selectedMessages(database, query.get('destination')),
    message: ({ query }) => message(options, query.get('position') ?? ''),
    event: ({ query }) => story(options, query),
    redis: async () => ({ down: await redisTrouble(options.redis) }),
    findings: async () => ({ findings: await databaseFindings(database) }),
    replay: ({ body }) => change(options, 'replay', body),
    requeue: ({ body }) => change(options, 'requeue', body),
    discard: ({ body }) => change(options, 'discard', body),
    'replay-messages': ({ body }) => changeMessages(options, 'replay', body),
    'discard-messages': ({ body }) => changeMessages(options, 'discard', body),
    pause: ({ body }) => changeConsumer(options, 'pause', body),
    resume: ({ body }) => changeConsumer(options, 'resume', body),
    remove: ({ body }) => changeConsumer(options, 'remove', body),
  }
  return {
    answer: (question) => {
      const { body, name } = question
      const isChange = VERBS.includes(name)
      const answer = Object.hasOwn(answers, name) ? answers[name] : undefined
      if (answer === undefined || isChange !== (body !== undefined)) {
        throw new Refused(404, 'There is no such question.')
      }
      return answer(question)
    },
  }
}

function filterOf(query: URLSearchParams): DeadLetterFilter {
  const text = (name: string): string | undefined => query.get(name) || undefined
  const kind = text('kind')
  return {
    ...{ consumer: text('consumer'), reason: text('reason'), search: text('search') },
    error: query.get('error') ?? undefined,
    kind: kind === 'event' || kind === 'refused' ? kind : undefined,
  }
}

function overview({ database }: ApiOptions): Promise<unknown> {
  return readTablesOf(database, async (query) => {
    const rates = await recentMinutes(query, database)
    const status = await readStatus(query, database, rates)
    return {
      ...{ status, minutes: rates.minutes, isWhole: rates.isWhole },
      failed: await failedMinutes(query, database),
      errors: await errorGroups(query, database, { limit: MOST_ERRORS }),
      troubles: Object.fromEntries(
        status.consumers.map((each) => [each.name, troublesOf(each, status.nowMs)]),
      ),
    }
  })
}

/** What the navigation counts. */
function marks(database: Database): Promise<unknown> {
  return readTablesOf(database, async (query) => {
    const letters = await counts(query, database)
    const destinations = (await readOutbox(query, database)) ?? []
    return {
      letters: letters.reduce((sum, { count }) => sum + count, 0),
      waiting: await countWaiting(query, database),
      outbox: destinations.reduce(
        (sum, { dead, isServed, waiting: many }) => sum + dead + (isServed ? 0 : many),
        0,
      ),
    }
  })
}

function waiting(database: Database, consumer: string | undefined): Promise<unknown> {
  return readTablesOf(database, async (query) => ({
    ...(await readTroubled(query, database, { consumer, most: PAGE })),
    consumers: await consumerNames(query, database),
  }))
}

function letters(database: Database, filter: DeadLetterFilter): Promise<unknown> {
  return readTablesOf(database, async (query) => {
    const found = await summaries(query, database, { ...filter, limit: PAGE })
    return {
      letters: found.map(readable),
      counts: await counts(query, database, filter),
      errors: await errorGroups(query, database, { ...filter, limit: PAGE }),
      consumers: await consumerNames(query, database),
    }
  })
}

async function letter({ database, seal }: ApiOptions, id: string): Promise<unknown> {
  const found = await readTablesOf(database, (query) =>
    deadLetterOf(query, database, { id, maxBytes: BODY_BYTES, seal }),
  )
  if (found === undefined) throw new Refused(404, 'There is no such open dead letter.')
  const { body, ...rest } = readable(found)
  return { ...rest, shown: bodyText({ ...rest, body }, 'auto') }
}

function outbox(database: Database, destination: string | undefined): Promise<unknown> {
  return readTablesOf(database, async (query) => {
    const destinations = await readOutbox(query, database)
    if (destinations === null) return { destinations }
    const filter = { destination, limit: PAGE }
    const keys = await waitingKeys(query, database, filter)
    return { destinations, keys, dead: await deadMessages(query, database, filter) }
  })
}

async function selectedMessages(database: Database, destination: string | null): Promise<unknown> {
  const found = await readTablesOf(database, (query) =>
    deadMessages(query, database, { destination: destination || undefined }),
  )
  return found.map(({ destination: to, position }) => ({ position, destination: to }))
}

async function message({ database, seal }: ApiOptions, position: string): Promise<unknown> {
  const [found] = isPosition(position)
    ? await readTablesOf(database, (query) =>
        messagesOf(query, database, { positions: [position], maxBytes: BODY_BYTES, seal }),
      )
    : []
  if (found === undefined) {
    throw new Refused(404, 'The outbox has no such message: it was published, or discarded.')
  }
  const { body, bytes: bodyBytes, ...rest } = found
  const state = MESSAGE_STATES[rest.state]
  return {
    ...rest,
    state,
    isDead: rest.state === 'x',
    bodyBytes,
    shown: bodyText({ body, bodyBytes, isOmitted: false, sealed: rest.sealed }, 'auto'),
  }
}

async function story(options: ApiOptions, query: URLSearchParams): Promise<unknown> {
  const text = (name: string): string | undefined => query.get(name) || undefined
  const { database, redis, redisNamespace } = options
  const asked = {
    ...{ key: text('key'), consumer: text('consumer'), tenant: text('tenant'), id: text('id') },
    ...{ redis, redisNamespace },
  }
  return timelineOf(await eventFactsOf(database, asked))
}

/** Undefined if it answers, or none is named. */
async function redisTrouble(url: string | undefined): Promise<string | undefined> {
  if (url === undefined) return undefined
  try {
    await using _redis = await openRedis(url)
    return undefined
  } catch (error) {
    return `${toShownFailure(error).message}.`.replace(/\.\.$/, '.')
  }
}

interface Change {
  readonly ids: readonly string[]
  readonly by: string | undefined
  readonly why: string
}

async function change(options: ApiOptions, verb: Verb, body: unknown): Promise<unknown> {
  const { brokers, by: own, database, ending, seal } = options
  const { ids, by, why } = changeOf(body)
  if (ending.aborted) throw new Failure('The console is ending.')
  const some = (act: Act) => changeSome(ids, { act, ending })
  const letters = deadLetters(database.pool, { schema: database.schema, by: by ?? own, seal })
  switch (verb) {
    case 'replay':
      return some((id) => letters.replay(id))
    case 'requeue':
      if (brokers.length === 0) throw usage('Which broker? Start the console with --broker.')
      return withSender(brokers, (sender) => some((id) => letters.requeue(id, sender)))
    case 'discard':
      if (why === '') throw usage('Say why the dead letters are discarded.')
      return some((id) => letters.discard(id, why))
    default:
      return verb satisfies never
  }
}

/** Of one transaction. */
async function changeMessages(
  options: ApiOptions,
  verb: 'replay' | 'discard',
  body: unknown,
): Promise<unknown> {
  const { by: own, database, ending } = options
  const { ids, by, why } = changeOf(body, isPosition)
  if (ending.aborted) throw new Failure('The console is ending.')
  if (verb === 'discard' && why === '') throw usage('Say why the messages are discarded.')
  const { pool, schema } = database
  const act = deadMessageChanges(pool, { schema, by: by ?? own, why: why || undefined })[verb]
  const done = await act(ids)
  const untouched = ids.filter((id) => !done.includes(id))
  return { done, untouched: untouched.map((id) => ({ id, why: 'no-dead-message' })) }
}

/** The pause of consumers, or their removal. `ids` are their names. */
async function changeConsumer(
  options: ApiOptions,
  verb: ConsumerVerb,
  body: unknown,
): Promise<unknown> {
  const { by: own, database, ending } = options
  const { ids, by = own, why } = changeOf(body, isConsumer)
  if (ending.aborted) throw new Failure('The console is ending.')
  if (verb === 'pause' && why === '') throw usage('Say why the consumer is paused.')
  const { pool, schema } = database
  const given = { schema, by, why: why || undefined }
  const untouched: { readonly id: string; readonly why: string }[] = []
  for (const consumer of ids) {
    const why = await consumerChanges[verb](pool, consumer, given)
    if (why !== undefined) untouched.push({ id: consumer, why })
  }
  return { done: ids.filter((id) => untouched.every((each) => each.id !== id)), untouched }
}

type ChangeConsumer = (
  pool: Database['pool'],
  consumer: string,
  given: { readonly schema: string },
) => Promise<string | undefined>

/** Each answers why a consumer was left as it is. */
const consumerChanges: Readonly<Record<ConsumerVerb, ChangeConsumer>> = {
  pause: async (...given) => {
    await pauseConsumer(...given)
    return undefined
  },
  resume: async (...given) => {
    await resumeConsumer(...given)
    return undefined
  },
  remove: async (...given) => {
    const { kind } = await removeConsumer(...given)
    return kind === 'removed' ? undefined : kind
  },
}

type Act = (id: string) => Promise<OperatorReport>

/** Answers what was changed also if it failed after that, because it cannot be undone. */
async function changeSome(
  ids: readonly string[],
  { act, ending }: { readonly act: Act; readonly ending: AbortSignal },
): Promise<unknown> {
  const startedAtMs = performance.now()
  const goesOn = (): boolean => !ending.aborted && performance.now() - startedAtMs < LONGEST_WORK_MS
  const { changed, failure }: ChangeOutcome = await changeEach(ids, {
    size: 1,
    act: ([id = '']) => act(id),
    goesOn,
  })
  if (failure === undefined) return changed
  if (changed.done.length + changed.untouched.length === 0) throw toFailure(failure)
  return { ...changed, failure: toShownFailure(failure).message }
}

const LONGEST_NAME = 200
const LONGEST_REASON = 2_000

const isConsumer = (text: string): boolean => /^[A-Za-z0-9._:-]{1,128}$/.test(text)

const isPosition = (text: string): boolean => /^\d{1,18}$/.test(text)

function changeOf(body: unknown, isFit: (id: string) => boolean = isId): Change {
  const { ids, by, why } = (typeof body === 'object' && body !== null ? body : {}) as Partial<
    Record<keyof Change, unknown>
  >
  const isList = Array.isArray(ids) && ids.length > 0 && ids.length <= MOST_IDS
  if (!isList || !ids.every((id) => typeof id === 'string' && isFit(id))) {
    throw usage(`Expected \`ids\` to be 1 to ${MOST_IDS} ids of dead letters.`)
  }
  const text = (value: unknown, most: number): string =>
    typeof value === 'string' ? value.trim().replaceAll('\0', '\u2400').slice(0, most) : ''
  return {
    ids: ids as readonly string[],
    by: text(by, LONGEST_NAME) || undefined,
    why: text(why, LONGEST_REASON),
  }
}
