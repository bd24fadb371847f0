import { setTimeout as pause } from 'node:timers/promises'
import type { Message } from '@aws-sdk/client-sqs'
import { type OrderMessage, toMessage, toOrder } from './orders.ts'
import type { Sqs } from './rival.ts'

/** Attributes of a queue about which `consumeSqs` warns of nothing. */
const ATTRIBUTES = {
  QueueArn: 'arn:aws:sqs:us-east-1:000000000000:bench',
  VisibilityTimeout: '60',
  MessageRetentionPeriod: '345600',
  RedrivePolicy: JSON.stringify({ deadLetterTargetArn: 'dead', maxReceiveCount: 100 }),
}

interface Entry {
  readonly Id: string
  readonly ReceiptHandle: string
  readonly VisibilityTimeout?: number
}

/** A message in flight, and the timer that makes it visible again if it is not deleted. */
interface InHand {
  readonly message: Message
  readonly timer?: NodeJS.Timeout
}

interface Command {
  readonly constructor: { readonly name: string }
  readonly input: Readonly<Record<string, unknown>>
}

/** An ended queue answers a poll after this time, so that a loop which goes on does not block the process. */
const IDLE_MS = 10

/** An SQS that answers at once from memory, so that the broker is not measured. */
export class HandQueue {
  readonly queueUrl = 'http://127.0.0.1/000000000000/bench'
  /** When each event was first handed out; milliseconds of the wall clock. */
  readonly takenAt: Map<string, number> = new Map()
  readonly #waiting: Message[] = []
  readonly #inHand = new Map<string, InHand>()
  #left = 0
  #sent = 0
  #hasEnded = false
  #wake: (() => void)[] = []
  #drained = Promise.withResolvers<number>()

  /** Resolves when the last of them was deleted: at what time that was. */
  async deliver(orders: readonly OrderMessage[]): Promise<number> {
    this.#drained = Promise.withResolvers()
    this.#left = orders.length
    for (const order of orders) {
      this.#sent += 1
      this.#waiting.push(toMessage(order, this.#sent))
    }
    this.#wakeAll()
    return this.#drained.promise
  }

  /** From now on an empty queue answers at once: a drain that lets the last poll end need not wait for it. */
  end(): void {
    this.#hasEnded = true
    this.#wakeAll()
  }

  get left(): number {
    return this.#left
  }

  readonly client: Sqs = {
    send: ((command: Command, options?: { readonly abortSignal?: AbortSignal }) =>
      this.#answer(command, options?.abortSignal)) as unknown as Sqs['send'],
  }

  async #answer(command: Command, signal: AbortSignal | undefined): Promise<object> {
    const { input } = command
    const entries = (input['Entries'] ?? []) as readonly Entry[]
    const all = { Successful: entries.map(({ Id }) => ({ Id })), Failed: [] }
    switch (command.constructor.name) {
      case 'ReceiveMessageCommand':
        return { Messages: await this.#receive(Number(input['MaxNumberOfMessages']), signal) }
      case 'DeleteMessageCommand':
        this.#delete(String(input['ReceiptHandle']))
        return {}
      case 'DeleteMessageBatchCommand':
        for (const { ReceiptHandle } of entries) this.#delete(ReceiptHandle)
        return all
      case 'ChangeMessageVisibilityBatchCommand':
        for (const { ReceiptHandle, VisibilityTimeout = 0 } of entries) {
          this.#hide(ReceiptHandle, VisibilityTimeout * 1_000)
        }
        return all
      case 'GetQueueAttributesCommand':
        return { Attributes: ATTRIBUTES }
      default:
        throw new Error(`${command.constructor.name}: nobody was expected to send it`)
    }
  }

  async #receive(max: number, signal: AbortSignal | undefined): Promise<readonly Message[]> {
    if (this.#waiting.length === 0) {
      await (this.#hasEnded ? pause(IDLE_MS) : this.#arrival(signal))
    }
    const messages = this.#waiting.splice(0, max)
    const now = Date.now()
    for (const message of messages) {
      const { id } = toOrder(message)
      if (!this.takenAt.has(id)) this.takenAt.set(id, now)
      this.#inHand.set(message.ReceiptHandle ?? '', { message })
    }
    return messages
  }

  #arrival(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wake.push(resolve)
      if (signal?.aborted) reject(signal.reason)
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  }

  #hide(handle: string, ms: number): void {
    const found = this.#inHand.get(handle)
    if (found === undefined) return
    clearTimeout(found.timer)
    const timer = setTimeout(() => this.#comeBack(found.message), ms).unref()
    this.#inHand.set(handle, { ...found, timer })
  }

  #comeBack(message: Message): void {
    this.#inHand.delete(message.ReceiptHandle ?? '')
    this.#waiting.push(message)
    this.#wakeAll()
  }

  #delete(handle: string): void {
    clearTimeout(this.#inHand.get(handle)?.timer)
    if (!this.#inHand.delete(handle)) return
    this.#left -= 1
    if (this.#left === 0) this.#drained.resolve(Date.now())
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake()
  }
}
