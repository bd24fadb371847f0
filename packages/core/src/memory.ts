/** `@onceward/core/memory`: stores for unit tests, without any server. */
export { type MemoryInbox, memoryInbox } from './memory-inbox.ts'
export { memoryLeases } from './memory-leases.ts'
export { toDelivery } from './to-delivery.ts'
