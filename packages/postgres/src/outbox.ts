export { type SendOptions, sendWith } from './outbox/send-with.ts'
