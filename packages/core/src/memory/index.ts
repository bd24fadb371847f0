/** `@onceward/core/memory`: stores for unit tests, without any server. */
import '../support/node-version.ts'

export { type MemoryInbox, memoryInbox, type SentMessage } from './inbox.ts'
export { memoryLeases } from './leases.ts'
export { toDelivery } from './to-delivery.ts'
