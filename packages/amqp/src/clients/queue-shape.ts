import type { Options } from 'amqplib'
import { classifyError } from '../errors.ts'
import { exists, type OpenChannel, onChannel } from './calls.ts'

/** How a queue was declared, without policies. */
export interface QueueShape {
  readonly durable: boolean
  readonly autoDelete: boolean
  readonly exclusive: boolean
  readonly arguments: Readonly<Record<string, unknown>>
}

export const isQuorumQueue = (shape: QueueShape | undefined): boolean =>
  shape?.arguments['x-queue-type'] === 'quorum'

const DIFFERENCE = /inequivalent arg '([^']+)' for queue /
/** Stands behind the name of the queue, which may hold anything. */
const CURRENT = ' but current is '
const VALUE = /^(?:the value '(.*)' of type '(\w+)'|'(.*)')/s
/** An argument of the queue that the type of the declaration does not have. */
const OTHER_TYPE = /invalid arg '[^']+' for queue /
const TYPE = 'x-queue-type'
const TYPES = ['classic', 'quorum', 'stream']

/** A queue has at most about this many arguments; learning each costs one refused declaration. */
const MOST_ARGUMENTS = 24

/**
 * How an existing queue was declared. AMQP cannot ask for that, but the server refuses a declaration that differs and
 * names the difference. So the queue is declared again with each difference corrected, until nothing differs. The
 * server logs each refusal. Undefined if this user may not declare the queue, or the server words the refusal otherwise.
 */
export async function describeQueue(
  open: OpenChannel,
  queue: string,
): Promise<QueueShape | 'missing' | undefined> {
  if (!(await exists(open, queue))) return 'missing'
  const plain = { durable: true, autoDelete: false, exclusive: false, arguments: {} }
  const shape = await learnShape(open, queue, plain)
  if (shape === undefined || TYPE in shape.arguments) return shape
  // A declaration without a type has the default type of the virtual host, and so may the queue.
  return (await learnShape(open, queue, withArgument(shape, TYPE, 'classic'))) ?? shape
}

async function learnShape(
  open: OpenChannel,
  queue: string,
  first: QueueShape,
): Promise<QueueShape | undefined> {
  let shape = first
  for (let round = 0; round < MOST_ARGUMENTS; round++) {
    const options: Options.AssertQueue = { ...shape }
    const answer = await onChannel(open, (channel) => channel.assertQueue(queue, options))
    if (answer.kind === 'done') return shape
    const next = corrected(shape, answer.error)
    if (next === undefined) return unknownShape(answer.error)
    shape = next
  }
  return undefined
}

const withArgument = (shape: QueueShape, name: string, value: unknown): QueueShape => ({
  ...shape,
  arguments: { ...shape.arguments, [name]: value },
})

function unknownShape(error: unknown): undefined {
  const { kind } = classifyError(error)
  if (kind === 'denied' || kind === 'refused') return undefined
  throw error
}

function corrected(shape: QueueShape, error: unknown): QueueShape | undefined {
  const text = String(error)
  if (OTHER_TYPE.test(text) && text.includes(' of queue type ')) {
    const other = TYPES[TYPES.indexOf(String(shape.arguments[TYPE] ?? 'classic')) + 1]
    return other === undefined ? undefined : withArgument(shape, TYPE, other)
  }
  const [, argument] = DIFFERENCE.exec(text) ?? []
  const currentAt = text.lastIndexOf(CURRENT)
  if (argument === undefined || currentAt === -1) return undefined
  const [, value, type, plain] = VALUE.exec(text.slice(currentAt + CURRENT.length)) ?? []
  // These arguments have two values, so the queue has the other one.
  if (argument === 'durable') return { ...shape, durable: !shape.durable }
  if (argument === 'auto_delete') return { ...shape, autoDelete: !shape.autoDelete }
  if (argument === 'exclusive') return { ...shape, exclusive: !shape.exclusive }
  // A queue without a type is a classic one.
  if (argument === TYPE) return withArgument(shape, TYPE, value ?? plain ?? 'classic')
  if (argument in shape.arguments) return undefined
  const typed = typedValue(value, type)
  return typed === undefined ? undefined : withArgument(shape, argument, typed)
}

function typedValue(value: string | undefined, type: string | undefined): unknown {
  if (type === 'longstr') return value
  if (type === 'bool') return value === 'true'
  const number = Number(value)
  return Number.isFinite(number) ? number : undefined
}
