class KvVerdict: pass
