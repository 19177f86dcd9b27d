"""Work that may wait for room that is paid for anyway before nodes are bought for it."""
