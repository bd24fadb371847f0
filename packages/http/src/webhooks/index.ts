export { REQUEST_HEADERS } from '../request/stored-request.ts'
export { cloudEventId } from './cloud-event.ts'
export { type WebhookDestinationOptions, webhookDestination } from './destination.ts'
export {
  githubSignature,
  type Secrets,
  SIGNATURE_DEFAULTS,
  type SignatureOptions,
  standardWebhook,
  stripeSignature,
  type WebhookVerdict,
  type WebhookVerifier,
} from './signatures.ts'
export { type SnsFetch, type SnsSignatureOptions, snsSignature } from './sns-signature.ts'
export {
  createWebhookGuard,
  type RunLater,
  type RunNow,
  type WebhookGuardOptions,
  type WebhookOptions,
} from './webhook-guard.ts'
