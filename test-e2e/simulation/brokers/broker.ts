import type { MessagePlan } from '../faults/plan.ts'
import type { Life } from '../world/process.ts'

/** A message as its producer made it. */
export interface Message {
  readonly number: number
  readonly plan: MessagePlan
  readonly key: string
  readonly lane: string | undefined
  readonly body: Uint8Array
}

/** One handing-over of a message. */
export interface Received {
  readonly message: Message
  /** Names this handing-over; a later one makes it stale. */
  readonly receipt: number
  readonly deliveryCount: number | undefined
  readonly redelivered: boolean | undefined
}

export interface SimulatedBroker {
  readonly kind: string
  hasFor(life: Life): boolean
  receive(life: Life, most: number): readonly Received[]
  /** False for a stale receipt: nothing is done. */
  ack(receipt: number): boolean
  /** The handing-over is over; the message comes back after `delayMs`. */
  putBack(receipt: number, delayMs: number): void
  /** The process is through with what it received, settled or not. */
  finished(receipts: readonly number[]): void
  /** The process died or lost its connection. */
  left(life: Life): void
  joined(life: Life): void
  /** The broker delivers a message once more, for reasons of its own. */
  duplicate(number: number): void
  /** A handing-over is taken for lost while its process still works on it. */
  expire(number: number): void
  rebalance(): void
  isEmpty(): boolean
  /** For states that are compared. */
  digest(): string
}

export interface BrokerClock {
  readonly nowMs: () => number
  /** Something can be received again after `delayMs`: time has somewhere to go. */
  readonly wake: (delayMs: number) => void
  readonly below: (limit: number) => number
}

interface Copy {
  readonly message: Message
  /** Of this copy. Those of one message are at one place in its lane. */
  readonly number: number
  count: number
  redelivered: boolean
  visibleAtMs: number
  receipt: number | undefined
  holder: Life | undefined
}

export interface QueueRules {
  readonly kind: 'queue' | 'fifo' | 'channel'
  /** A handing-over is over after this, ms; infinite on channels, which know when their client is gone. */
  readonly visibilityMs: number
}

/** SQS (standard and FIFO) and AMQP: copies that are hidden while somebody works on them. */
export function createQueue(
  { kind, visibilityMs }: QueueRules,
  messages: readonly Message[],
  clock: BrokerClock,
): SimulatedBroker {
  let madeCopies = messages.length
  let copies: Copy[] = messages.map((message, number) => toCopy(message, number))

  const isVisible = (copy: Copy): boolean => copy.visibleAtMs <= clock.nowMs()
  /** A lane of a FIFO queue is blocked while a message of it is hidden. */
  const isBlocked = (copy: Copy): boolean =>
    kind === 'fifo' &&
    copies.some((other) => other.message.lane === copy.message.lane && !isVisible(other))
  const receivable = (): Copy[] => copies.filter((copy) => isVisible(copy) && !isBlocked(copy))
  const hide = (copy: Copy, life: Life): Received => {
    copy.holder = life
    copy.count += 1
    copy.receipt = copy.number * 1_000 + copy.count
    copy.visibleAtMs = clock.nowMs() + visibilityMs
    if (Number.isFinite(visibilityMs)) clock.wake(visibilityMs)
    const { message, receipt, count } = copy
    return kind === 'channel'
      ? { message, receipt, deliveryCount: undefined, redelivered: copy.redelivered }
      : { message, receipt, deliveryCount: count, redelivered: undefined }
  }
  const show = (copy: Copy, delayMs: number): void => {
    copy.receipt = undefined
    copy.holder = undefined
    copy.visibleAtMs = clock.nowMs() + delayMs
    if (delayMs > 0) clock.wake(delayMs)
  }
  const byReceipt = (receipt: number): Copy | undefined =>
    copies.find((copy) => copy.receipt === receipt)

  return {
    kind,
    hasFor: () => receivable().length > 0,
    receive: (life, most) => {
      const received: Received[] = []
      const open = receivable()
      while (open.length > 0 && received.length < most) {
        const at = kind === 'queue' ? clock.below(open.length) : 0
        const [copy] = open.splice(at, 1)
        if (copy !== undefined) received.push(hide(copy, life))
      }
      return received
    },
    ack: (receipt) => {
      const copy = byReceipt(receipt)
      if (copy === undefined) return false
      copies = copies.filter((other) => other !== copy)
      return true
    },
    putBack: (receipt, delayMs) => {
      const copy = byReceipt(receipt)
      if (copy === undefined) return
      // A delay queue brings a message of its own, which nobody has seen.
      if (delayMs > 0) copy.redelivered = false
      else copy.redelivered = true
      show(copy, delayMs)
    },
    finished: () => undefined,
    left: (life) => {
      if (kind !== 'channel') return
      for (const copy of copies) {
        if (copy.holder !== life) continue
        copy.redelivered = true
        show(copy, 0)
      }
    },
    joined: () => undefined,
    duplicate: (number) => {
      const message = messages[number % messages.length]
      madeCopies += 1
      if (message !== undefined) copies.push(toCopy(message, madeCopies))
      copies.sort((one, other) => one.message.number - other.message.number)
    },
    expire: (number) => {
      const hidden = copies.filter(({ receipt }) => receipt !== undefined)
      const copy = hidden[number % Math.max(1, hidden.length)]
      if (copy === undefined) return
      copy.redelivered = true
      show(copy, 0)
    },
    rebalance: () => undefined,
    isEmpty: () => copies.length === 0,
    digest: () =>
      copies
        .map(({ message, count, redelivered, visibleAtMs, holder }) => {
          // A channel tells nobody how often; elsewhere more than once is all that counts.
          const isAgain = kind !== 'channel' && count > 1
          const hiddenMs = Math.max(0, visibleAtMs - clock.nowMs())
          return [message.number, isAgain, redelivered, hiddenMs, holder?.name].join(',')
        })
        .join(';'),
  }
}

function toCopy(message: Message, number: number): Copy {
  return {
    message,
    number,
    count: 0,
    redelivered: false,
    visibleAtMs: 0,
    receipt: undefined,
    holder: undefined,
  }
}
